package jsonl

// Held is how many bytes of buffer r holds.
func (r *Reader) Held() int { return cap(r.buf) }
