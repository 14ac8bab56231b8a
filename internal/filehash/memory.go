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
	known map[content]func() (string, error)
}

// content is what a sum belongs to: a state, and where on the disk it lies.
type content struct {
	State
	place place
}

// place is the SHA-256 of where the parts of a file lie on its disk, zero on file
// systems that do not tell. Some file systems let a program exchange parts of two
// files, which is no change to them and is not dated; it shows here.
type place [sha256.Size]byte

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
	c := content{State: state}
	sum := func() (string, error) { return read(f, state) }
	settled := began.Sub(time.Unix(0, state.Ctime)) > grain && dated(f)
	if settled {
		// Where that cannot be told the file is read each time.
		c.place, err = placeOf(f)
		settled = err == nil
	}
	if settled {
		sum = m.once(c, sum)
	}
	told, err := sum()
	if settled {
		// What was written a moment ago is given its place by the system when it
		// likes: that is no change, and is not remembered either.
		if now, placeErr := placeOf(f); err != nil || placeErr != nil || now != c.place {
			m.forget(c)
		}
	}
	if err != nil {
		return State{}, "", err
	}
	return state, told, nil
}

// once gives what tells the sum of a content, by one reading for all that ask.
func (m *memory) once(c content, read func() (string, error)) func() (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if sum, ok := m.known[c]; ok {
		return sum
	}
	if m.known == nil {
		m.known = map[content]func() (string, error){}
	}
	if len(m.known) >= coord.MaxSums {
		for some := range m.known {
			delete(m.known, some)
			break
		}
	}
	m.known[c] = sync.OnceValues(read)
	return m.known[c]
}

// forget lets a sum be read anew.
func (m *memory) forget(c content) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, c)
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
