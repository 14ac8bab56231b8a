package toolwire_test

import (
	"testing"

	"signalbox/internal/toolwire"
)

func TestMessagesHaveExactlyOneMeaning(t *testing.T) {
	for line, want := range map[string]bool{
		`{"hello":{"version":1,"token":"x"}}`:                      true,
		`{"call":{"id":1,"tool":"list","arguments":{"path":"a"}}}`: true,
		`{"withdraw":{"id":1}}`:                                    true,
		`{}`:                                                       false,
		`null`:                                                     false,
		`[]`:                                                       false,
		`{"hello":null}`:                                           false,
		`{"hello":{"version":1,"token":"x"},"call":{"id":1}}`:                   false,
		`{"hello":{"version":"1","token":"x"}}`:                                 false,
		`{"hello":{"version":1,"token":"x","role":"operator"}}`:                 false,
		`{"approve":{"id":1}}`:                                                  false,
		`{"call":{"id":1.5,"tool":"list","arguments":{}}}`:                      false,
		`{"withdraw":{"id":1}} {"withdraw":{"id":2}}`:                           false,
		`{"call":{"id":1,"tool":"list","arguments":{"path":"a"},"retry":true}}`: false,
	} {
		if _, err := toolwire.ReadRequest([]byte(line)); (err == nil) != want {
			t.Errorf("ReadRequest(%s) gave %v, want it read = %v", line, err, want)
		}
	}
	for line, want := range map[string]bool{
		`{"welcome":{"version":1,"tools":[]}}`:                      true,
		`{"refused":{"reason":"No."}}`:                              true,
		`{"result":{"id":1,"text":"x"}}`:                            true,
		`{"result":{"id":1,"text":"x"},"refused":{"reason":"No."}}`: false,
		`{"result":{"id":1,"text":"x","allow":true}}`:               false,
	} {
		if _, err := toolwire.ReadReply([]byte(line)); (err == nil) != want {
			t.Errorf("ReadReply(%s) gave %v, want it read = %v", line, err, want)
		}
	}
}

func FuzzReadRequest(f *testing.F) {
	f.Add([]byte(`{"call":{"id":1,"tool":"list","arguments":{"path":"a"}}}`))
	f.Add([]byte(`{"hello":{"version":1,"token":"x"}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := toolwire.ReadRequest(line)
		if n := count(r.Hello != nil, r.Call != nil, r.Withdraw != nil); err == nil && n != 1 {
			t.Errorf("%q was read with %d meanings", line, n)
		}
	})
}

func count(members ...bool) (n int) {
	for _, set := range members {
		if set {
			n++
		}
	}
	return n
}
