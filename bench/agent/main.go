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
	"bytes"
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
		if _, err := os.Stdout.WriteString("ready\n"); err != nil {
			return err
		}
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
	var in input
	for {
		line, err := in.line()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		id, method := head(line)
		switch method {
		case "initialize":
			err = reply(id, `{"protocolVersion":1,"agentCapabilities":{},"authMethods":[]}`)
		case "session/new":
			err = reply(id, `{"sessionId":"s"}`)
		case "session/prompt":
			if lines == nil {
				lines = [][]byte{say(strconv.FormatInt(in.last, 10))}
			}
			if mode != "echo" {
				lines[0] = say(strconv.FormatInt(time.Now().UnixNano(), 10))
			}
			for _, l := range lines {
				if _, err := os.Stdout.Write(l); err != nil {
					return err
				}
			}
			err = reply(id, `{"stopReason":"end_turn"}`)
		}
		if err != nil {
			return err
		}
	}
}

// buffer holds what was read and not yet taken; a line fits.
var buffer [1 << 20]byte

// input is what comes in, with the time at which the last read returned.
type input struct {
	from, to int
	last     int64
}

// line gives the next line without its end. It is good until the next call.
func (i *input) line() ([]byte, error) {
	for {
		if n := bytes.IndexByte(buffer[i.from:i.to], '\n'); n >= 0 {
			line := buffer[i.from : i.from+n]
			i.from += n + 1
			return line, nil
		}
		i.from, i.to = 0, copy(buffer[:], buffer[i.from:i.to])
		if i.to == len(buffer) {
			return nil, errors.New("the line is too long")
		}
		n, err := os.Stdin.Read(buffer[i.to:])
		i.last = time.Now().UnixNano()
		if i.to += n; err != nil {
			return nil, err
		}
	}
}

// head finds a message's id and method, which stand before what the method is
// given. An agent that answers at once does not decode what it need not: the
// first use of encoding/json in a process takes longer than the answer.
func head(line []byte) (id []byte, method string) {
	before, _, _ := bytes.Cut(line, []byte(`"params":`))
	member := func(name string) []byte {
		_, rest, _ := bytes.Cut(before, []byte(name))
		value, _, _ := bytes.Cut(rest, []byte(","))
		return bytes.TrimRight(value, "}")
	}
	return member(`"id":`), string(bytes.Trim(member(`"method":`), `"`))
}

func reply(id []byte, result string) error {
	line := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	line = append(line, `,"result":`...)
	line = append(line, result...)
	_, err := os.Stdout.Write(append(line, '}', '\n'))
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
