package probe

// getpid32 makes the call getpid of the 32-bit architecture: its filter is
// another one, if there is one at all.
func getpid32() int32

func foreignCall() error {
	if getpid32() <= 0 {
		return errWrong
	}
	return nil
}
