package daemon

import (
	"bufio"
	"encoding/json"
	"io"

	"signalbox/internal/coord"
)

// report is one line that a worker writes to its front door about itself.
type report struct {
	State workerState `json:"state"`
	// Code and Message say why a worker refused to start.
	Code    coord.Code `json:"code,omitempty"`
	Message string     `json:"message,omitempty"`
}

type workerState string

const (
	// workerReady: the journal is open and the API answers.
	workerReady workerState = "ready"
	// workerRefused: the worker cannot start, and says why.
	workerRefused workerState = "refused"
	// workerStopped: the operator ended Signalbox.
	workerStopped workerState = "stopped"
)

// maxReport bounds one line of a report.
const maxReport = 16 << 10

func writeReport(w io.Writer, r report) error {
	line, err := json.Marshal(r)
	if err == nil {
		_, err = w.Write(append(line, '\n'))
	}
	return err
}

// readReports gives the reports of a worker until its end of the pipe closes.
// A line that is none ends them: it is not from our worker.
func readReports(r io.Reader) <-chan report {
	out := make(chan report, 4) // a worker writes three at most
	go func() {
		defer close(out)
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, maxReport)
		for range cap(out) {
			if !lines.Scan() {
				return
			}
			var one report
			if json.Unmarshal(lines.Bytes(), &one) != nil {
				return
			}
			out <- one
		}
	}()
	return out
}
