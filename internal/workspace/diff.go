package workspace

import (
	"context"
	"fmt"
	"strings"
	"unicode"

	"github.com/aymanbagabas/go-udiff"

	"signalbox/internal/coord"
)

// FileDiff is a change as a person reviews it.
type FileDiff struct {
	Change coord.FileChange `json:"change"`
	// Added and Removed count lines, of text only.
	Added   int `json:"added"`
	Removed int `json:"removed"`
	// Text is the unified diff, with git's labels; "" where there is nothing
	// to compare, for which Notes give the reason.
	Text string `json:"text,omitempty"`
	// Cut tells that the diff is longer than coord.MaxDiff, so that the change
	// cannot be shown whole.
	Cut bool `json:"cut,omitempty"`
	// Hidden tells that the text holds characters of which Hidden is true:
	// whoever displays it makes them visible.
	Hidden bool `json:"hidden,omitempty"`
	// Notes say what the diff does not: a renaming, permissions, no text.
	Notes []string `json:"notes,omitempty"`
}

// Diff compares the two contents of a change, which the store keeps.
func Diff(ctx context.Context, store Store, c coord.FileChange) (FileDiff, error) {
	before, err := sideOf(ctx, store, c.Before)
	if err != nil {
		return FileDiff{}, err
	}
	after, err := sideOf(ctx, store, c.After)
	if err != nil {
		return FileDiff{}, err
	}
	d := FileDiff{Change: c}
	switch c.Kind {
	case coord.FileRenamed:
		d.Notes = append(d.Notes, "renamed from "+quote(c.From))
	case coord.FileNew:
		d.Notes = append(d.Notes, "new file, permissions "+c.Mode.String())
	case coord.FileDeleted:
		d.Notes = append(d.Notes, "deleted")
	case coord.FileChanged:
	}
	if c.Before != "" && c.After != "" && c.BeforeMode != c.Mode {
		d.Notes = append(d.Notes, fmt.Sprintf("permissions %s become %s", c.BeforeMode, c.Mode))
	}
	// Judged by the bytes and not by what the change says of them.
	if !isText(before) || !isText(after) {
		d.Notes = append(d.Notes, fmt.Sprintf("no UTF-8 text: %d bytes become %d", len(before), len(after)))
		return d, nil
	}
	d.text(string(before), string(after))
	return d, nil
}

func sideOf(ctx context.Context, store Store, sha string) ([]byte, error) {
	if sha == "" {
		return nil, nil
	}
	return contentOf(ctx, store, sha)
}

// text fills in the unified diff and its counts.
func (d *FileDiff) text(before, after string) {
	from, to := "a/"+d.Change.Path, "b/"+d.Change.Path
	switch d.Change.Kind {
	case coord.FileRenamed:
		from = "a/" + d.Change.From
	case coord.FileNew:
		from = "/dev/null"
	case coord.FileDeleted:
		to = "/dev/null"
	case coord.FileChanged:
	}
	edits := udiff.Lines(before, after)
	text, err := udiff.ToUnified(from, to, before, edits, udiff.DefaultContextLines)
	if err != nil {
		// The edits are those of this very text.
		d.Notes = append(d.Notes, "the contents could not be compared")
		return
	}
	for _, e := range edits {
		d.Removed += lines(before[e.Start:e.End])
		d.Added += lines(e.New)
	}
	d.Hidden = strings.ContainsFunc(text, Hidden)
	if len(text) > coord.MaxDiff {
		text, d.Cut = text[:strings.LastIndexByte(text[:coord.MaxDiff], '\n')+1], true
	}
	if text == "" && d.Change.Kind != coord.FileRenamed {
		d.Notes = append(d.Notes, "the file is empty")
	}
	d.Text = text
}

// lines counts the lines of a piece of text, the last one also where it has
// no line break.
func lines(s string) int {
	n := strings.Count(s, "\n")
	if s != "" && !strings.HasSuffix(s, "\n") {
		n++
	}
	return n
}

// Hidden reports characters that change how what is around them is shown, or
// that a terminal or a browser does not show at all.
func Hidden(r rune) bool {
	return r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
