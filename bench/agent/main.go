// Command agent is an ACP agent that does no work, for the measurements. It
// knows no ACP library, so that what is measured is not its own doing.
//
//	agent burst N   writes N updates of 200 bytes, one write each, then ends the
//	                turn; the first update is the time instead
//	agent echo      ends the turn with one update that tells when the prompt came
//	agent start     writes one line when it starts, and ends with its input
//
// Times are nanoseconds of the wall clock, which all processes share.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// lineSize is the length of an update, its line end included.
const lineSize = 200

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	mode := strings.Join(args, " ")
	var lines [][]byte
	switch {
	case mode == "start":
		fmt.Println("ready")
	case mode == "echo":
	case len(args) == 2 && args[0] == "burst":
		n, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		for i := range n {
			lines = append(lines, update(i))
		}
	default:
		return fmt.Errorf("the agent has no mode %q", mode)
	}
	stamps := &stamped{}
	in := bufio.NewReaderSize(stamps, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if err := json.Unmarshal(line, &m); err != nil {
			return err
		}
		switch m.Method {
		case "initialize":
			err = reply(m.ID, `{"protocolVersion":1,"agentCapabilities":{},"authMethods":[]}`)
		case "session/new":
			err = reply(m.ID, `{"sessionId":"s"}`)
		case "session/prompt":
			if lines == nil {
				lines = [][]byte{say(strconv.FormatInt(stamps.last, 10))}
			}
			if mode != "echo" {
				lines[0] = say(strconv.FormatInt(time.Now().UnixNano(), 10))
			}
			for _, l := range lines {
				if _, err := os.Stdout.Write(l); err != nil {
					return err
				}
			}
			err = reply(m.ID, `{"stopReason":"end_turn"}`)
		}
		if err != nil {
			return err
		}
	}
}

// stamped reads the input and remembers when the last read returned.
type stamped struct{ last int64 }

func (s *stamped) Read(b []byte) (int, error) {
	n, err := os.Stdin.Read(b)
	s.last = time.Now().UnixNano()
	return n, err
}

func reply(id json.RawMessage, result string) error {
	_, err := fmt.Fprintf(os.Stdout, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", id, result)
	return err
}

// say is an update with a text that needs no escaping.
func say(text string) []byte {
	return []byte(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + text + `"}}}}` + "\n")
}

// update is the i-th of a burst: its number, and words up to lineSize.
func update(i int) []byte {
	text := fmt.Sprintf("%05d ", i)
	words := "the quick brown fox jumps over the lazy dog and runs on "
	return say(text + words[:lineSize-len(say(text))])
}
