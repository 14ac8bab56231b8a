package acp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"signalbox/internal/coord"
	"signalbox/internal/provider/stdio"
)

// permissionParams are those of session/request_permission.
type permissionParams struct {
	SessionID string   `json:"sessionId"`
	ToolCall  toolCall `json:"toolCall"`
	Options   []struct {
		ID   string `json:"optionId"`
		Name string `json:"name"`
		Kind string `json:"kind"`
	} `json:"options"`
}

// options keeps the agent's own, in its order. One of a kind that the protocol
// does not have is left out, because nobody could know what choosing it means;
// dropped counts those and what is beyond coord.MaxOptions.
func (p permissionParams) options() (out []coord.Option, dropped int) {
	for _, o := range p.Options {
		k := coord.OptionKind(o.Kind)
		switch k {
		case coord.AllowOnce, coord.AllowAlways, coord.RejectOnce, coord.RejectAlways:
			if o.ID != "" && len(o.ID) <= coord.MaxTitle && len(out) < coord.MaxOptions {
				out = append(out, coord.Option{ID: o.ID, Name: stdio.Clip(o.Name, coord.MaxTitle), Kind: k})
				continue
			}
		}
		dropped++
	}
	return out, dropped
}

// merge lays newer members over older ones.
func (t toolCall) merge(newer toolCall) toolCall {
	t.ID = or(newer.ID, t.ID)
	t.Title = or(newer.Title, t.Title)
	t.Kind = or(newer.Kind, t.Kind)
	t.Status = or(newer.Status, t.Status)
	if newer.hasInput() {
		t.RawInput = newer.RawInput
	}
	if present(newer.Content) {
		t.Content = newer.Content
	}
	if present(newer.Locations) {
		t.Locations = newer.Locations
	}
	t.long = (t.long || newer.long) && !newer.telling()
	return t
}

// present reports whether a list was given and holds something.
func present(list json.RawMessage) bool {
	s := string(list)
	return s != "" && s != "null" && s != "[]"
}

// telling reports whether a person can see from the call what it would do.
func (t toolCall) telling() bool { return t.hasInput() || present(t.Content) }

// describe makes a request's content: everything that the agent gave, as text
// that a person can read. What is not shown whole is marked as cut.
func (t toolCall) describe() coord.RequestContent {
	var b strings.Builder
	c := coord.RequestContent{Title: or(t.Title, "The agent asks for a permission and does not say for what."), Tool: stdio.Cut(t.Kind, maxName), Cut: t.long}
	if t.hasInput() {
		section(&b, "Input", pretty(t.RawInput))
	}
	var content []toolContent
	if present(t.Content) {
		c.Cut = c.Cut || stdio.Decode(t.Content, &content) != nil
	}
	for _, part := range content {
		shown := part.write(&b)
		c.Cut = c.Cut || !shown
	}
	section(&b, "Places", t.places())
	if len(c.Title) > coord.MaxTitle {
		section(&b, "Title", c.Title)
		c.Title = stdio.Clip(c.Title, coord.MaxTitle)
	}
	c.Detail = strings.TrimSpace(b.String())
	if len(c.Detail) > coord.MaxRequestContent {
		c.Detail, c.Cut = stdio.Clip(c.Detail, coord.MaxRequestContent), true
	}
	return c
}

// places lists the files that a tool call names, one a line.
func (t toolCall) places() string {
	var places []struct {
		Path string `json:"path"`
		Line *int   `json:"line"`
	}
	if !present(t.Locations) || stdio.Decode(t.Locations, &places) != nil {
		return ""
	}
	lines := make([]string, len(places))
	for i, p := range places {
		lines[i] = p.Path
		if p.Line != nil {
			lines[i] = fmt.Sprintf("%s:%d", p.Path, *p.Line)
		}
	}
	return strings.Join(lines, "\n")
}

func section(b *strings.Builder, title, text string) {
	if text != "" {
		fmt.Fprintf(b, "%s:\n%s\n\n", title, text)
	}
}

// pretty shows JSON: a string as itself, anything else indented.
func pretty(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// toolContent is one part of a tool call's content.
type toolContent struct {
	Type    string  `json:"type"`
	Content block   `json:"content"`
	Path    string  `json:"path"`
	OldText *string `json:"oldText"`
	NewText string  `json:"newText"`
}

// write shows the part; false when it is of a kind that cannot be shown as
// text.
func (c toolContent) write(b *strings.Builder) bool {
	switch {
	case c.Type == "diff" && c.OldText == nil:
		section(b, "New file "+c.Path, "+"+strings.ReplaceAll(strings.TrimSuffix(c.NewText, "\n"), "\n", "\n+"))
	case c.Type == "diff":
		section(b, "Change of "+c.Path, change(*c.OldText, c.NewText))
	case c.Type == "content" && c.Content.Type == "text":
		section(b, "Text", c.Content.Text)
	case c.Type == "content":
		section(b, "Content", "of type "+stdio.Quote(c.Content.Type)+", which is not shown")
		return false
	default:
		section(b, "Content", "of type "+stdio.Quote(c.Type)+", which is not shown")
		return false
	}
	return true
}

// contextLines is how much is shown around a change.
const contextLines = 3

// change shows a change of a text: what is the same at its beginning and end is
// left out but for a few lines.
func change(before, after string) string {
	a, b := strings.Split(before, "\n"), strings.Split(after, "\n")
	head := 0
	for head < min(len(a), len(b)) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < min(len(a), len(b))-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var out strings.Builder
	write := func(mark string, lines []string) {
		for _, l := range lines {
			out.WriteString(mark + l + "\n")
		}
	}
	fmt.Fprintf(&out, "@@ line %d @@\n", head+1)
	write(" ", a[max(0, head-contextLines):head])
	write("-", a[head:len(a)-tail])
	write("+", b[head:len(b)-tail])
	write(" ", a[len(a)-tail:min(len(a), len(a)-tail+contextLines)])
	return strings.TrimSuffix(out.String(), "\n")
}
