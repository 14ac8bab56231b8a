package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"signalbox/internal/coord"
	"signalbox/internal/screen"
)

// maxHelpWidth keeps lines of help short enough to read on a wide terminal.
const maxHelpWidth = 100

// helpCommand is "signalbox help job run", which some type for --help.
func (a *app) helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND…]", Short: "Show the help of a command", Hidden: true,
		RunE: func(c *cobra.Command, args []string) error {
			found, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return coord.Errorf(coord.Invalid, "there is no such command; see signalbox --help")
			}
			return found.Help()
		},
	}
}

// versionCommand is what some type for --version, and what --json needs.
func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Show the version of this program", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.Show(struct {
				Version string `json:"version"`
			}{a.Version}, func(w io.Writer) { fmt.Fprintf(w, "signalbox version %s\n", a.Version) })
		},
	}
}

// help writes a command's help: what it does, how it is called, what is below
// it, and its flags apart from those that every command has.
func (a *app) help(w io.Writer, c *cobra.Command) {
	width := min(a.Width, maxHelpWidth)
	st := a.Styles(a.TTY)
	about := c.Long
	if about == "" {
		about = c.Short + "."
	}
	fmt.Fprintln(w, screen.Wrap(reflow(about), width))
	title := func(name string) { fmt.Fprintf(w, "\n%s\n", st.Bold.Render(name)) }
	title("Usage")
	usage := c.UseLine()
	if c.HasAvailableSubCommands() {
		usage = c.CommandPath() + " COMMAND [flags]"
	}
	fmt.Fprintf(w, "  %s\n", usage)
	if c.HasExample() {
		title("Examples")
		for line := range strings.Lines(c.Example) {
			fmt.Fprintf(w, "  %s\n", strings.TrimSpace(line))
		}
	}
	sections := []*cobra.Group{{Title: "Commands"}}
	if groups := c.Groups(); len(groups) > 0 {
		sections = groups
	}
	for _, section := range sections {
		if !c.HasAvailableSubCommands() {
			break
		}
		title(section.Title)
		for _, sub := range c.Commands() {
			if sub.GroupID == section.ID && sub.IsAvailableCommand() {
				pad := c.NamePadding()
				fmt.Fprintf(w, "  %-*s %s", pad, sub.Name(), screen.Hanging(sub.Short, pad+3, width))
			}
		}
	}
	if flags := c.LocalNonPersistentFlags(); flags.HasAvailableFlags() {
		title("Flags")
		fmt.Fprint(w, flags.FlagUsagesWrapped(width))
	}
	if c.HasParent() {
		fmt.Fprintf(w, "\n--data, --json and --url go with every command: %s --help\n", c.Root().Name())
		return
	}
	title("Flags of every command")
	fmt.Fprint(w, c.PersistentFlags().FlagUsagesWrapped(width))
}

// reflow makes one line of each paragraph.
func reflow(text string) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		paragraphs[i] = strings.Join(strings.Fields(p), " ")
	}
	return strings.Join(paragraphs, "\n\n")
}
