package process_test

func worker(string) {}
