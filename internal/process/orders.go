package process

import (
	"encoding/binary"
)

// maxOrders bounds what a gate is told. What a program may be given in arguments
// and environment is at most 6 MiB on Linux and 1 MiB on macOS; the rest is for
// the folders.
const maxOrders = 9 << 20

// orders are what a gate is told when it may go.
type orders struct {
	Path string
	Argv []string
	Env  []string
	Dir  string
	// Writes are as in Spec: nil and none are two things.
	Writes []string
}

// encode gives the orders as they travel: how long they are, in four bytes, then
// each list as one more than its length, or 0 for nil, and each text behind its
// length. No library reads them, because the gate is to touch little of its
// memory when it wakes: what it touched is in the way of its exec.
func (o orders) encode() []byte {
	b := make([]byte, 4, 4<<10)
	for _, texts := range [][]string{{o.Path, o.Dir}, o.Argv, o.Env, o.Writes} {
		if texts == nil {
			b = binary.AppendUvarint(b, 0)
			continue
		}
		b = binary.AppendUvarint(b, uint64(len(texts))+1)
		for _, s := range texts {
			b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
		}
	}
	binary.BigEndian.PutUint32(b, uint32(min(len(b)-4, maxOrders+1)))
	return b
}

// decode reads what encode gave, without the length in front; false when b is
// anything else.
func decode(b []byte) (o orders, ok bool) {
	number := func() uint64 {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)) {
			b, ok = nil, false
			return 0
		}
		b = b[size:]
		return n
	}
	ok = true
	var lists [4][]string
	for i := range lists {
		n := number()
		if n == 0 {
			continue
		}
		lists[i] = []string{}
		for range n - 1 {
			size := number()
			if size > uint64(len(b)) {
				return o, false
			}
			lists[i] = append(lists[i], string(b[:size]))
			b = b[size:]
		}
	}
	if !ok || len(b) > 0 || len(lists[0]) != 2 {
		return o, false
	}
	return orders{Path: lists[0][0], Dir: lists[0][1], Argv: lists[1], Env: lists[2], Writes: lists[3]}, true
}
