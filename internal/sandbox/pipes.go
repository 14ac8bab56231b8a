package sandbox

import (
	"os"
	"time"
)

// The descriptors of a stage beside the standard streams.
const (
	orderFD  = 3
	statusFD = 4
	reportFD = 5
)

// pipes are the pipes to a stage, all close-on-exec.
type pipes struct {
	order, status, output, report *os.File
	// theirs are the stage's ends, in the order of its descriptors.
	theirs []*os.File
	opened []*os.File
}

func newPipes() (*pipes, error) {
	p := &pipes{}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, scratchError(err)
	}
	p.opened = append(p.opened, null)
	pair := func() (r, w *os.File) {
		if err != nil {
			return nil, nil
		}
		if r, w, err = os.Pipe(); err == nil {
			p.opened = append(p.opened, r, w)
		}
		return r, w
	}
	outR, outW := pair()
	orderR, orderW := pair()
	statusR, statusW := pair()
	reportR, reportW := pair()
	p.output, p.order, p.status, p.report = outR, orderW, statusR, reportR
	p.theirs = []*os.File{null, outW, outW, orderR, statusW, reportW}
	if err != nil {
		p.close()
		return nil, scratchError(err)
	}
	return p, nil
}

func (p *pipes) closeTheirs() {
	for _, f := range p.theirs {
		_ = f.Close()
	}
}

// endBy ends reads that still wait at a time.
func (p *pipes) endBy(t time.Time) {
	for _, f := range []*os.File{p.order, p.status, p.output, p.report} {
		_ = f.SetDeadline(t)
	}
}

// close closes everything; closing twice does no harm.
func (p *pipes) close() {
	for _, f := range p.opened {
		_ = f.Close()
	}
}
