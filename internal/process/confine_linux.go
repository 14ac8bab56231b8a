package process

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"signalbox/internal/sandbox/landlock"
)

// sinks are devices that keep nothing of what is written to them.
var sinks = []string{"/dev/null", "/dev/zero", "/dev/full"}

// confine restricts the writes of the calling thread, and so of the program
// that it becomes and of all that this one starts. What to exec stays the same.
func confine(path string, argv, writes []string) (string, []string, error) {
	var grants []landlock.Grant
	for _, dir := range writes {
		grants = append(grants, landlock.Grant{Path: dir, Access: landlock.Tree | landlock.Socket, Required: true, Exact: true})
	}
	for _, dev := range sinks {
		grants = append(grants, landlock.Grant{Path: dev, Access: landlock.Write})
	}
	ruleset, err := landlock.PrepareWrites(grants)
	switch {
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EOPNOTSUPP):
		return "", nil, errors.New("the kernel has no Landlock, or it is switched off; boot one of 6.2 or newer with landlock in lsm=")
	case err != nil:
		return "", nil, err
	}
	if err := landlock.Restrict(ruleset); err != nil {
		return "", nil, fmt.Errorf("restrict by Landlock: %w", err)
	}
	return path, argv, nil
}
