package filehash

import (
	"os"
	"syscall"
)

// State is an inode and the state of its content. Whoever changes the content
// moves the time of change, which, unlike that of modification, no call sets.
type State struct {
	// Size is in bytes.
	Dev, Ino, Size uint64
	// Mtime and Ctime are nanoseconds since 1970, as the file system keeps them.
	Mtime, Ctime int64
}

// StateOf is the state that a call of stat(2) found.
func StateOf(st *syscall.Stat_t) State {
	m, c := times(st)
	return State{Dev: uint64(st.Dev), Ino: st.Ino, Size: uint64(st.Size), Mtime: m, Ctime: c} //nolint:unconvert // it is signed on macOS
}

// stateOf is the state of an opened regular file.
func stateOf(f *os.File) (State, error) {
	info, err := f.Stat()
	if err != nil {
		return State{}, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.Mode().IsRegular() {
		return State{}, ErrIrregular
	}
	return StateOf(st), nil
}
