package a2a

import (
	"strings"
	"testing"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
)

// BenchmarkRoundTrip is work that a peer without streams does at once: the card,
// the look for a task, the work, the task.
func BenchmarkRoundTrip(b *testing.B) {
	p := newPeer(b, v10)
	p.silent = true
	p.on("send", func(c *call) { c.reply(c.wrap("task", c.at("completed", c.text("a", "done")))) })
	at := prepare(b, newAdapter(b, DefaultTiming), p.config(), "the work")
	b.ReportAllocs()
	for b.Loop() {
		s, err := at.adapter.Prepare(b.Context(), at.work)
		if err != nil {
			b.Fatal(err)
		}
		at.session = s
		at.send().ends(coord.AttemptCompleted)
		at.close()
		p.mu.Lock()
		p.got = nil
		p.mu.Unlock()
	}
}

// BenchmarkStream is the reading of 32 MB in events of 16 KB.
func BenchmarkStream(b *testing.B) {
	const events, size = 2 << 10, 16 << 10
	p := newPeer(b, v10)
	text := strings.Repeat("x", size)
	p.on("stream", func(c *call) {
		c.events(c.wrap("task", c.at("working")))
		event := "data: " + c.response(c.piece("a", text, true)) + "\n\n"
		for range events {
			_, _ = c.Write([]byte(event))
		}
		c.events(c.moved("completed"))
	})
	p.on("get", func(c *call) { c.fail(codeNotFound, "no") })
	timing := DefaultTiming
	timing.Settle = 1
	at := prepare(b, newAdapter(b, timing), p.config(), "the work")
	b.SetBytes(events * size)
	b.ReportAllocs()
	for b.Loop() {
		s, err := at.adapter.Prepare(b.Context(), at.work)
		if err != nil {
			b.Fatal(err)
		}
		at.session = s
		at.send()
		n := 0
		for {
			e := at.next()
			if e.Kind == provider.EventText {
				n += len(e.Text.Text)
			}
			if e.Lost != nil {
				b.Fatalf("it was lost: %+v", *e.Lost)
			}
			if e.End != nil {
				break
			}
		}
		if n != events*size {
			b.Fatalf("%d bytes came", n)
		}
		at.close()
	}
}
