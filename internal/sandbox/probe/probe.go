package probe

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// Lab is what attempts aim at. It is made by the prover, outside of the
// sandbox, and everything in it is bait.
type Lab struct {
	// Workspace is what the program may read, Scratch what it may write.
	Workspace string `json:"workspace"`
	Scratch   string `json:"scratch"`
	// Outside is a directory beside the workspace, Home one that stands for the
	// operator's.
	Outside string `json:"outside"`
	Home    string `json:"home"`
	// Secret is the content of what must not be read.
	Secret string `json:"secret"`
	// Victim is another process of the same user; Secret is in its environment.
	Victim int `json:"victim"`
	// TCP and UDP are ports of 127.0.0.1 at which somebody listens; Abstract is a
	// socket in Linux's abstract namespace.
	TCP      int    `json:"tcp"`
	UDP      int    `json:"udp"`
	Abstract string `json:"abstract"`
	// Descriptor is an open file of the supervisor that is not closed at exec.
	Descriptor int `json:"descriptor"`
	// FileSize and ScratchSize are the limits in force.
	FileSize    int64 `json:"file_size"`
	ScratchSize int64 `json:"scratch_size"`
}

// Probe is one attempt.
type Probe struct {
	Name string
	// What says for a person what is attempted.
	What string
	// Must marks what has to work inside.
	Must bool
	// Race asks for somebody outside who keeps exchanging a link.
	Race bool
	Do   func(Lab) error
}

// All lists the probes in the order in which they are told.
func All() []Probe {
	return append(portable(), native()...)
}

// errWrong tells that a call worked and gave something else.
var errWrong = errors.New("WRONG")

// Main runs one attempt as a program: its name, and a Lab in JSON. It prints
// one word, "ok" or the name of an error, and exits with 0 whatever came of it.
func Main(args []string, out io.Writer) int {
	switch args[0] {
	case "nothing":
		_, _ = fmt.Fprintln(out, "ok")
		return 0
	case "victim":
		return victim()
	}
	var lab Lab
	if len(args) < 2 || json.Unmarshal([]byte(args[1]), &lab) != nil {
		return 2
	}
	for _, p := range All() {
		if p.Name == args[0] {
			_, _ = fmt.Fprintln(out, Word(p.Do(lab)))
			return 0
		}
	}
	return 2
}

// victim waits until its standard input ends.
func victim() int {
	signal.Ignore(syscall.SIGURG, syscall.SIGCONT)
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// Word names an error in one word that holds nothing of this machine.
func Word(err error) string {
	if err == nil {
		return "ok"
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		if name := unix.ErrnoName(errno); name != "" {
			return name
		}
	}
	if errors.Is(err, errWrong) {
		return errWrong.Error()
	}
	return "ERROR"
}
