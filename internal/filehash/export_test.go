package filehash

import "os"

// Memory is one of a test's own.
type Memory struct{ memory }

// Of is that of the package, with this memory.
func (m *Memory) Of(path string) (State, string, error) { return m.of(path) }

// Len is how many sums are remembered.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.known)
}

// During is Of, where change is called between the look at a file and its
// reading.
func (m *Memory) During(path string, change func()) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	state, err := stateOf(f)
	if err != nil {
		return "", err
	}
	c := content{State: state}
	if c.place, err = placeOf(f); err != nil {
		return "", err
	}
	m.once(c, func() (string, error) {
		change()
		return read(f, state)
	})
	_, sum, err := m.of(path)
	return sum, err
}

// Dated is whether the changes of a file are dated well enough.
func Dated(f *os.File) bool { return dated(f) }
