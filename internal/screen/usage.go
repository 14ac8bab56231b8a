package screen

import (
	"fmt"
	"strings"
)

// Misfit says what is wrong with the number of arguments that a command was
// given: command is its path ("signalbox job edit"), use the line that names its
// arguments ("edit JOB FILE"), where flags are in brackets.
func Misfit(command, use string, given int) string {
	var names []string
	for _, word := range strings.Fields(use)[1:] {
		if word == "[flags]" {
			break // a program and its arguments follow, which are no names of ours
		}
		names = append(names, word)
	}
	see := ": see " + command + " --help"
	switch {
	case len(names) == 0:
		return command + " takes no argument" + see
	case given < len(names):
		return command + " needs " + strings.Join(names, " and ") + see
	default:
		return fmt.Sprintf("%s takes %s and nothing more, and was given %d arguments; quote what has spaces%s", command, strings.Join(names, " and "), given, see)
	}
}

// LoggedOut says from where a token was removed, and that it is still good:
// nobody but the worker can end it, and only an operator can have it do so.
func (s *Screen) LoggedOut(keyring, file bool) {
	if keyring {
		s.Say("the token was removed from your keyring")
	}
	if file {
		s.Say("the token file was removed")
	}
	if !keyring && !file {
		s.Say("no token was found here")
		return
	}
	s.Say("whoever has a copy can use it until it is revoked: log in again, then\n  signalbox token list      names it\n  signalbox token revoke ID ends it")
}
