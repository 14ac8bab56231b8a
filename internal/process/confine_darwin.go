package process

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// wrapper is the system's own sandbox. It becomes the program.
const wrapper = "/usr/bin/sandbox-exec"

// confine gives the command under which the program's writes are restricted.
// Paths go in as parameters, so that no name of a folder is read as a rule. The
// last rule that matches decides.
func confine(path string, argv, writes []string) (string, []string, error) {
	if _, err := os.Stat(wrapper); err != nil {
		return "", nil, errors.New("this system has no " + wrapper)
	}
	command := []string{wrapper}
	rules := `(version 1) (allow default) (deny file-write*) (allow file-write-data (literal "/dev/null") (literal "/dev/zero"))`
	var b strings.Builder
	b.WriteString(rules)
	for i, dir := range writes {
		name := fmt.Sprintf("W%d", i)
		command = append(command, "-D", name+"="+dir)
		fmt.Fprintf(&b, " (allow file-write* (subpath (param %q)))", name)
	}
	command = append(command, "-p", b.String(), "--", path)
	return wrapper, append(command, argv[1:]...), nil
}
