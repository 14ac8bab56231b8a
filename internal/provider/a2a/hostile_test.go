package a2a

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
)

// TestHostileAnswersToWorkAreUnknown has one row for each way in which an answer
// to the work can be wrong. The peer may have the work all the same, so each is
// unknown, and nothing is sent again.
func TestHostileAnswersToWorkAreUnknown(t *testing.T) {
	plain := func(body func(c *call) string) func(c *call) {
		return func(c *call) {
			c.Header().Set("Content-Type", "application/json")
			c.raw(body(c))
		}
	}
	done := func(c *call) string { return c.response(c.wrap("task", c.at("completed"))) }
	for _, tt := range []struct {
		name, cause string
		answer      func(c *call)
	}{
		{"nothing", provider.CauseProtocol, plain(func(*call) string { return "" })},
		{"no JSON", provider.CauseProtocol, plain(func(*call) string { return "<html></html>" })},
		{"half of the JSON", provider.CauseProtocol, plain(func(c *call) string { return done(c)[:80] })},
		{"data after the JSON", provider.CauseProtocol, plain(func(c *call) string { return done(c) + "{}" })},
		{"two ids", provider.CauseProtocol, plain(func(c *call) string { return strings.Replace(done(c), `"id"`, `"id":"other","id"`, 1) })},
		{"two results", provider.CauseProtocol, plain(func(c *call) string { return strings.Replace(done(c), `"result"`, `"result":{},"result"`, 1) })},
		{"a result and an error", provider.CauseProtocol, plain(func(c *call) string { return strings.Replace(done(c), `"result"`, `"error":{"code":1},"result"`, 1) })},
		{"neither", provider.CauseProtocol, plain(func(c *call) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s}`, c.id) })},
		{"another version of JSON-RPC", provider.CauseProtocol, plain(func(c *call) string { return strings.Replace(done(c), "2.0", "1.0", 1) })},
		{"a list of responses", provider.CauseProtocol, plain(func(c *call) string { return "[" + done(c) + "]" })},
		{"an error without a code", provider.CauseProtocol, plain(func(c *call) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":"x"}}`, c.id) })},
		{"a result that is no object", provider.CauseProtocol, plain(func(c *call) string { return c.response("done") })},
		{"a result of no known kind", provider.CauseProtocol, plain(func(c *call) string { return c.response(object{"kind": "strange", "strange": object{}}) })},
		{"a status update for a task", provider.CauseProtocol, plain(func(c *call) string { return c.response(c.moved("completed")) })},
		{"a task without an id", provider.CauseProtocol, plain(func(c *call) string {
			task := c.at("completed")
			delete(task, "id")
			return c.response(c.wrap("task", task))
		})},
		{"a state that does not exist", provider.CauseProtocol, plain(func(c *call) string { return c.response(c.wrap("task", c.state(object{"state": "frobnicated"}))) })},
		{"a state of the other version", provider.CauseProtocol, plain(func(c *call) string {
			return c.response(c.wrap("task", c.state(object{"state": map[string]string{v03: "TASK_STATE_COMPLETED", v10: "completed"}[c.version]})))
		})},
		{"HTML that is JSON", provider.CauseProtocol, func(c *call) { c.Header().Set("Content-Type", "text/html"); c.raw(done(c)) }},
		{"bytes", provider.CauseProtocol, func(c *call) { c.Header().Set("Content-Type", "application/octet-stream"); c.raw(done(c)) }},
		{"no content", provider.CauseProtocol, func(c *call) { c.WriteHeader(http.StatusNoContent) }},
		{"an error of a server", provider.CauseGone, func(c *call) { c.WriteHeader(http.StatusBadGateway); c.raw(done(c)) }},
		{"a task of parts without end", provider.CauseFrame, plain(func(c *call) string {
			task := c.response(c.wrap("task", c.at("completed", object{"artifactId": "a", "parts": []any{}})))
			return strings.Replace(task, `"parts":[]`, `"parts":[`+strings.Repeat("{},", 8<<20)+`{}]`, 1)
		})},
		{"a task of nothings without end", provider.CauseFrame, plain(func(c *call) string {
			task := c.response(c.wrap("task", c.at("completed", object{"artifactId": "a", "parts": []any{}})))
			return strings.Replace(task, `"parts":[]`, `"parts":[`+strings.Repeat("0,", 12<<20)+`0]`, 1)
		})},
		{"an endless error of a server", provider.CauseFrame, func(c *call) { c.WriteHeader(http.StatusBadGateway); endless(c, " ", 1<<30) }},
		{"an endless body", provider.CauseFrame, func(c *call) { c.Header().Set("Content-Type", "application/json"); endless(c, " ", 1<<30) }},
		{"a body in drips", provider.CauseGone, func(c *call) {
			c.Header().Set("Content-Type", "application/json")
			for _, b := range []byte(done(c)) {
				c.raw(string(b))
				select {
				case <-c.ended:
					return
				case <-time.After(20 * time.Millisecond):
				}
			}
		}},
		{"compressed emptiness", provider.CauseProtocol, func(c *call) {
			c.Header().Set("Content-Type", "application/json")
			c.Header().Set("Content-Encoding", "gzip")
			_, _ = c.Write(bomb())
		}},
		{"a flood of informational responses", provider.CauseGone, func(c *call) {
			conn := hijack(c)
			defer conn.Close()
			flood := strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n", 1000)
			for range 1000 {
				if _, err := io.WriteString(conn, flood); err != nil {
					return
				}
			}
		}},
		{"endless headers", provider.CauseGone, func(c *call) {
			conn := hijack(c)
			defer conn.Close()
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n")
			for range 1 << 16 {
				if _, err := io.WriteString(conn, "X-Filler: "+strings.Repeat("x", 1000)+"\r\n"); err != nil {
					return
				}
			}
		}},
		{"what is no HTTP", provider.CauseGone, func(c *call) {
			conn := hijack(c)
			defer conn.Close()
			_, _ = io.WriteString(conn, "SSH-2.0-OpenSSH_9.9\r\n")
		}},
		{"a stream without events", provider.CauseGone, func(c *call) { c.raw(": nothing\n\n") }},
		{"a stream of junk", provider.CauseNoise, func(c *call) { c.raw(strings.Repeat("data: junk\n\n", coord.MaxNoiseLines+1)); c.hold() }},
		{"a stream of other tasks' ids in the envelope", provider.CauseGone, func(c *call) {
			c.id = []byte(`"other"`)
			c.events(c.wrap("task", c.at("working")), c.moved("completed"))
		}},
		{"half an event", provider.CauseGone, func(c *call) { c.raw("data: " + c.response(c.wrap("task", c.at("completed"))) + "\n") }},
		{"an endless comment", provider.CauseFrame, func(c *call) { c.raw(":"); endless(c, "x", 1<<30) }},
		{"an endless event of many lines", provider.CauseFrame, func(c *call) { endless(c, "data: "+strings.Repeat("x", 250)+"\n", 1<<30) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			both(t, func(t *testing.T, p *peer) {
				p.on("stream", tt.answer)
				timing := fast
				if tt.name == "a body in drips" {
					timing.Receipt = time.Second // of 3 s that the whole body takes
				}
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				if l := p.beginWith(timing).loses(); l.Cause != tt.cause {
					t.Errorf("the loss is %+v, want the cause %s", l, tt.cause)
				}
				runtime.ReadMemStats(&after)
				if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > 192<<20 {
					t.Errorf("memory grew by %d MB", grown>>20)
				}
				p.once()
			})
		})
	}
}

// endless writes a text until the reader is gone, or a bound.
func endless(c *call, text string, most int) {
	if c.Header().Get("Content-Type") == "" {
		c.Header().Set("Content-Type", "text/event-stream")
	}
	block := []byte(strings.Repeat(text, 1<<16/len(text)))
	for n := 0; n < most; n += len(block) {
		if _, err := c.Write(block); err != nil {
			return
		}
	}
}

// bomb is 16 MB of nothing, in 16 KB.
var bomb = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.Copy(w, io.LimitReader(spaces{}, 16<<20))
	_ = w.Close()
	return b.Bytes()
})

type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// hijack takes the connection.
func hijack(c *call) net.Conn {
	conn, _, err := http.NewResponseController(c.ResponseWriter).Hijack()
	if err != nil {
		panic(err)
	}
	return conn
}

// TestACutAtAnyByteOfTheAnswerIsFollowedOrUnknown cuts the answer to the work
// after each of its bytes, properly and by a reset. With the whole task in hand
// it is followed to its end, before that it is unknown, and never is it sent
// again.
func TestACutAtAnyByteOfTheAnswerIsFollowedOrUnknown(t *testing.T) {
	for _, reset := range []bool{false, true} {
		for _, streams := range []bool{true, false} {
			t.Run(fmt.Sprintf("reset %v, stream %v", reset, streams), func(t *testing.T) {
				both(t, func(t *testing.T, p *peer) { cutEverywhere(t, p, reset, streams) })
			})
		}
	}
}

func cutEverywhere(t *testing.T, p *peer, reset, streams bool) {
	p.silent = !streams
	var mu sync.Mutex // the peer's side and this one meet in no event of a cut connection
	head, whole := "", ""
	cut := 0
	answer := func(c *call) {
		mu.Lock()
		head, whole = full(c, streams)
		part := whole[:cut]
		mu.Unlock()
		conn := hijack(c)
		defer conn.Close()
		_, _ = io.WriteString(conn, part)
		if tcp, ok := conn.(*net.TCPConn); ok && reset {
			_ = tcp.SetLinger(0)
		}
	}
	p.on("stream", answer)
	p.on("send", answer)
	p.on("get", func(c *call) { c.reply(c.at("completed", c.text("a", "done"))) })
	p.on("subscribe", func(c *call) { c.fail(codeUnsupported, "no") })
	at := prepare(t, newAdapter(t, fast), p.config(), "the work")
	for more := true; more; {
		before := p.count("work")
		var err error
		if at.session, err = at.adapter.Prepare(t.Context(), at.work); err != nil {
			t.Fatal(err)
		}
		at.send()
		e, all := at.last()
		mu.Lock()
		received := all[0].Kind == provider.EventReceipt
		switch {
		case received && (e.End == nil || e.End.State != coord.AttemptCompleted || answerOf(all) != "done"):
			t.Errorf("cut after %d bytes: with a receipt it ended with %s, %q", cut, told1(e), answerOf(all))
		case !received && (e.Lost == nil || e.Lost.Activity != coord.MayRun):
			t.Errorf("cut after %d bytes: without a receipt it ended with %s", cut, told1(e))
		case received && cut < len(head):
			t.Errorf("cut after %d bytes: there was a receipt before the task was whole, which is %d", cut, len(head))
		case !received && !reset && cut >= len(head):
			t.Errorf("cut after %d bytes: there was no receipt of a whole task", cut)
		}
		mu.Unlock()
		if n := p.count("work") - before; n != 1 {
			t.Fatalf("cut after %d bytes: work was submitted %d times", cut, n)
		}
		at.close()
		mu.Lock()
		cut++
		more = cut <= len(whole)
		mu.Unlock()
	}
}

// full is a whole answer, up to the end of the connection, and the part of it
// that has the task.
func full(c *call, streams bool) (head, whole string) {
	body := c.response(c.wrap("task", c.at("working")))
	if !streams {
		// The length tells a whole body from a part of one.
		whole = fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		return whole, whole
	}
	head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: " + body + "\n\n"
	return head, head + "data: " + c.response(c.piece("a", "done", false)) + "\n\n"
}

func TestHostileAnswersAboutATaskDecideNothing(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer func(c *call)
	}{
		{"another task", func(c *call) {
			other := c.at("completed")
			other["id"] = "t2"
			c.reply(other)
		}},
		{"another context", func(c *call) {
			other := c.at("completed")
			other["contextId"] = "c2"
			c.reply(other)
		}},
		{"an empty task", func(c *call) { c.reply(object{}) }},
		{"a state that does not exist", func(c *call) { c.reply(c.state(object{"state": "frobnicated"})) }},
		{"no state", func(c *call) { c.reply(c.state(object{})) }},
		{"a response to another request", func(c *call) { c.id = []byte(`"other"`); c.reply(c.at("completed")) }},
		{"data after the JSON", func(c *call) { c.reply(c.at("completed")); c.raw("{}") }},
		{"a stream", func(c *call) { c.events(c.at("completed")) }},
		{"a task in drips", func(c *call) {
			for range 100 {
				c.raw(" ")
				select {
				case <-c.ended:
					return
				case <-time.After(5 * time.Millisecond):
				}
			}
		}},
		{"nothing", func(c *call) { c.mute() }},
		{"a status", func(c *call) { c.WriteHeader(http.StatusTooManyRequests) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			both(t, func(t *testing.T, p *peer) {
				p.on("stream", func(c *call) { c.events(c.wrap("task", c.at("working")), c.piece("a", "part", false)) })
				p.on("subscribe", func(c *call) { c.fail(codeUnsupported, "no") })
				p.on("get", func(c *call) {
					if c.n < 2 {
						tt.answer(c)
						return
					}
					c.reply(c.at("completed", c.text("a", "part and rest")))
				})
				timing := fast
				timing.Call, timing.Gone = 100*time.Millisecond, 5*time.Second
				if got := p.beginWith(timing).ends(coord.AttemptCompleted); got != "part and rest" {
					t.Errorf("the answer is %q", got)
				}
				p.once()
			})
		})
	}
}
