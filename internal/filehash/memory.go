package filehash

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"signalbox/internal/coord"
)

var (
	// ErrIrregular is told of what is no regular file.
	ErrIrregular = errors.New("it is not a regular file")
	// ErrChanged is told of a file that was changed while it was read.
	ErrChanged = errors.New("it was changed while it was read")
)

// grain is more than the steps in which changes are dated: a tick of at most
// 10 ms on Linux, a second on HFS+. Version control systems call a file that is
// younger "racily clean".
const grain = 2 * time.Second

// Of gives the state and the SHA-256, in hex, of a regular file. The last
// element of its path may not be a link. Errors are ErrIrregular, ErrChanged and
// those of opening and reading. Who asks for a file that is being read for
// another waits for that reading, which nothing but its end ends.
func Of(path string) (State, string, error) { return shared.of(path) }

var shared memory

// memory remembers sums. The zero value is ready.
type memory struct {
	mu sync.Mutex
	// known gives sums, once they were read.
	known map[State]func() (string, error)
}

func (m *memory) of(path string) (State, string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return State{}, "", err
	}
	defer f.Close()
	// Taken before the state: if that is older by more than the grain, a change
	// from now on cannot be dated as the last one was.
	began := time.Now()
	state, err := stateOf(f)
	if err != nil {
		return State{}, "", err
	}
	sum := func() (string, error) { return read(f, state) }
	settled := began.Sub(time.Unix(0, state.Ctime)) > grain && dated(f)
	if settled {
		sum = m.once(state, sum)
	}
	told, err := sum()
	if err != nil {
		if settled {
			m.forget(state)
		}
		return State{}, "", err
	}
	return state, told, nil
}

// once gives what tells the sum of a state, by one reading for all that ask.
func (m *memory) once(state State, read func() (string, error)) func() (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if sum, ok := m.known[state]; ok {
		return sum
	}
	if m.known == nil {
		m.known = map[State]func() (string, error){}
	}
	if len(m.known) >= coord.MaxSums {
		for some := range m.known {
			delete(m.known, some)
			break
		}
	}
	m.known[state] = sync.OnceValues(read)
	return m.known[state]
}

// forget lets a sum be read anew.
func (m *memory) forget(state State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, state)
}

// read gives the sum of a file, which is in this state.
func read(f *os.File, state State) (string, error) {
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", err
	}
	switch after, err := stateOf(f); {
	case err != nil:
		return "", err
	case after != state:
		return "", ErrChanged
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
