package sandbox

import (
	"runtime"
	"sync"
	"time"

	"signalbox/internal/coord"
)

// spareLife is how long a stage waits for a run that may come: as long as a
// person reads and edits between two runs of the same tests.
const spareLife = 10 * time.Minute

// spareLook is how often spares are looked at: one that the mounts have changed
// under keeps a file system busy that was unmounted.
const spareLook = 10 * time.Second

// starter starts the stages of a box, all from one thread, because the kernel
// ends a stage with the thread that started it. It keeps at most one spare of
// each tier, a stage that waits so that the next run does not: it is made after
// a run, or when one is announced, and ends when none took it within spareLife.
type starter struct {
	helper, dir string
	life, look  time.Duration
	takes       chan take
	wants       chan coord.Tier
	spent       chan *waiting
	quit, done  chan struct{}

	mu     sync.Mutex
	spares map[coord.Tier]*waiting
}

// take asks for a stage of a tier. Its channel has room for the answer.
type take struct {
	tier  coord.Tier
	reply chan<- taken
}

type taken struct {
	stage *waiting
	err   error
}

func newStarter(helper, dir string) *starter {
	return &starter{
		helper: helper, dir: dir, life: spareLife, look: spareLook, takes: make(chan take), wants: make(chan coord.Tier, len(tiers)),
		spent: make(chan *waiting, 8), quit: make(chan struct{}), done: make(chan struct{}), spares: map[coord.Tier]*waiting{},
	}
}

// stop ends a starter that runs, and waits for it. No stage may be in use.
func (s *starter) stop() {
	close(s.quit)
	<-s.done
}

// spare takes the spare of a tier, nil where none fits.
func (s *starter) spare(tier coord.Tier) *waiting {
	s.mu.Lock()
	w := s.spares[tier]
	delete(s.spares, tier)
	s.mu.Unlock()
	if w != nil && !w.fits(s.helper, s.life) {
		w.close()
		return nil
	}
	return w
}

// put keeps a spare, in place of none.
func (s *starter) put(w *waiting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spares[w.tier] = w
}

// stage gives a stage of a tier, the spare if there is one; that needs nobody
// else's turn on a busy machine. The caller retires it.
func (s *starter) stage(tier coord.Tier) (*waiting, error) {
	if w := s.spare(tier); w != nil {
		return w, nil
	}
	reply := make(chan taken, 1)
	s.takes <- take{tier, reply}
	t := <-reply
	return t.stage, t.err
}

// retire takes back a stage whose run is over, and makes a spare in its place.
func (s *starter) retire(w *waiting) { s.spent <- w }

// want asks for a spare; where much is asked for, there is one soon anyhow.
func (s *starter) want(tier coord.Tier) {
	select {
	case s.wants <- tier:
	default:
	}
}

// run serves until quit is closed, and ends its spares.
func (s *starter) run() {
	defer close(s.done)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer func() {
		for _, w := range s.spares { // nobody takes one any more
			w.close()
		}
		for len(s.spent) > 0 {
			(<-s.spent).close()
		}
	}()
	ticker := time.NewTicker(s.look)
	defer ticker.Stop()
	for {
		look := ticker.C
		if !s.any() {
			look = nil
		}
		select {
		case t := <-s.takes:
			// It may have been started meanwhile.
			var err error
			w := s.spare(t.tier)
			if w == nil {
				w, err = begin(t.tier, s.helper, s.dir)
			}
			t.reply <- taken{w, err}
		case tier := <-s.wants:
			s.provide(tier)
		case w := <-s.spent:
			if w.served {
				s.provide(w.tier)
			}
			w.close()
		case <-look:
			for _, tier := range tiers {
				if w := s.spare(tier); w != nil {
					s.put(w)
				}
			}
		case <-s.quit:
			return
		}
	}
}

// provide makes a spare where none fits. That it cannot be started is told to
// the run that needs it.
func (s *starter) provide(tier coord.Tier) {
	w := s.spare(tier)
	if w == nil {
		var err error
		if w, err = begin(tier, s.helper, s.dir); err != nil {
			return
		}
	}
	s.put(w)
}

func (s *starter) any() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.spares) > 0
}
