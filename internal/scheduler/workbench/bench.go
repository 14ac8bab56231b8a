package workbench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
	"signalbox/internal/workspace"
)

// Options say what a Bench may do.
type Options struct {
	// Space is the folder that was approved.
	Space      coord.WorkspaceIdentity
	Operations []coord.Operation
	Writes     coord.WriteMode
	// Tests may be run TestRuns times without asking.
	Tests    []string
	TestRuns int
	// Base are the changes that the work starts from.
	Base     []coord.FileChange
	Contents workspace.Store
	Tester   Tester
}

// Bench is what one attempt works on. Its methods may be called in parallel.
type Bench struct {
	o       Options
	root    *workspace.Root
	overlay *workspace.Overlay
	tools   []provider.Tool

	mu   sync.Mutex
	runs int // granted runs that were taken
}

// Open opens the workspace that was approved. It is Stale when another folder
// is there by now, or a file of the base is neither as it was nor as it is to
// be.
func Open(ctx context.Context, o Options) (*Bench, error) {
	root, err := workspace.Open(o.Space)
	if err != nil {
		return nil, err
	}
	overlay, err := workspace.NewOverlay(ctx, root, o.Contents, o.Base)
	if err != nil {
		_ = root.Close()
		return nil, err
	}
	return &Bench{o: o, root: root, overlay: overlay, tools: Tools(o.Operations, o.Writes)}, nil
}

// Tools are those that the bench answers to.
func (b *Bench) Tools() []provider.Tool { return b.tools }

// Changes is what was written so far, over the base.
func (b *Bench) Changes() []coord.FileChange { return b.overlay.Changes() }

// Close waits for what looks at the workspace.
func (b *Bench) Close() error { return b.root.Close() }

// Reply is what a call came to.
type Reply struct {
	// Result answers the call; without one the operator is asked first.
	Result provider.Result
	// Ask is what the operator is asked: its kind, content, change and test.
	Ask *coord.Request
	// Granted says by which rule of the plan Ask is approved already.
	Granted string
	// Did is what was done, as evidence.
	Did coord.ToolCall
	// Wrote tells that Changes has changed.
	Wrote bool
}

// Call carries out a call, or says what to ask.
func (b *Bench) Call(ctx context.Context, c provider.Call) Reply {
	if !slices.ContainsFunc(b.tools, func(t provider.Tool) bool { return t.Name == c.Tool }) {
		return Refused(coord.ToolCall{Tool: c.Tool}, coord.Errorf(coord.Invalid, "there is no such tool here"))
	}
	switch c.Tool {
	case toolList:
		return b.list(c)
	case toolRead:
		return b.read(ctx, c)
	case toolWrite:
		return b.write(ctx, c)
	default:
		return b.tests(ctx, c)
	}
}

// Refused tells a fault to the agent and to the evidence.
func Refused(did coord.ToolCall, err error) Reply {
	did.Failed, did.Note = true, told(err)
	return Reply{Result: provider.Result{Text: did.Note, Failed: true}, Did: did}
}

// told is an error's text as far as it is meant to be shown.
func told(err error) string {
	if coord.CodeOf(err) == coord.Internal {
		return "it went wrong inside Signalbox; the log has the cause"
	}
	return err.Error()
}

func (b *Bench) list(c provider.Call) Reply {
	args, err := parse[pathArguments](c.Arguments)
	did := coord.ToolCall{Tool: c.Tool, Path: args.Path}
	if err != nil {
		return Refused(did, err)
	}
	listing, err := b.overlay.List(args.Path)
	if err != nil {
		return Refused(did, err)
	}
	var out strings.Builder
	for _, e := range listing.Entries {
		switch {
		case e.Refused != "":
			fmt.Fprintf(&out, "%s (%s)\n", e.Name, e.Refused)
		case e.Kind == workspace.EntryFolder:
			fmt.Fprintf(&out, "%s/\n", e.Name)
		default:
			fmt.Fprintf(&out, "%s %d bytes\n", e.Name, e.Size)
		}
	}
	if listing.More > 0 {
		fmt.Fprintf(&out, "and %d more, which are not listed\n", listing.More)
	}
	if out.Len() == 0 {
		out.WriteString("the folder is empty\n")
	}
	return Reply{Result: provider.Result{Text: out.String()}, Did: did}
}

func (b *Bench) read(ctx context.Context, c provider.Call) Reply {
	args, err := parse[pathArguments](c.Arguments)
	did := coord.ToolCall{Tool: c.Tool, Path: args.Path}
	if err != nil {
		return Refused(did, err)
	}
	f, err := b.overlay.Read(ctx, args.Path)
	if err != nil {
		return Refused(did, err)
	}
	did.SHA256, did.Size = f.SHA256, int64(len(f.Content))
	if f.Binary {
		return Refused(did, coord.Errorf(coord.Unsupported, "the file is no UTF-8 text, so it cannot be read here"))
	}
	return Reply{Result: provider.Result{Text: string(f.Content)}, Did: did}
}

func (b *Bench) write(ctx context.Context, c provider.Call) Reply {
	args, err := parse[writeArguments](c.Arguments)
	did := coord.ToolCall{Tool: c.Tool, Path: args.Path}
	if err == nil {
		err = args.check()
	}
	if err != nil {
		return Refused(did, err)
	}
	if b.o.Writes == coord.Each {
		return b.ask(ctx, did, args)
	}
	change, err := args.apply(ctx, b.overlay)
	if err != nil {
		return Refused(did, err)
	}
	did.SHA256, did.Size = change.After, change.Size
	text := "Held back in the change set: " + describe(change)
	if change.Kind == "" {
		text = "The file is as it was before this task again."
	}
	return Reply{Result: provider.Result{Text: text}, Did: did, Wrote: true}
}

// check reports whether exactly one thing is asked for.
func (a writeArguments) check() error {
	n := 0
	for _, given := range []bool{a.Content != nil, a.Delete, a.From != ""} {
		if given {
			n++
		}
	}
	if n != 1 {
		return coord.Errorf(coord.Invalid, "give exactly one of content, delete and from")
	}
	return nil
}

func (a writeArguments) apply(ctx context.Context, o *workspace.Overlay) (coord.FileChange, error) {
	switch {
	case a.Delete:
		return o.Delete(ctx, a.Path)
	case a.From != "":
		return o.Rename(ctx, a.From, a.Path)
	default:
		return o.Write(ctx, a.Path, []byte(*a.Content))
	}
}

// ask makes the request for one write. It is planned on what is there now, so
// that what was approved before is not asked for again.
func (b *Bench) ask(ctx context.Context, did coord.ToolCall, args writeArguments) Reply {
	alone, err := workspace.NewOverlay(ctx, b.root, b.o.Contents, nil)
	if err != nil {
		return Refused(did, err)
	}
	change, err := args.apply(ctx, alone)
	if err != nil {
		return Refused(did, err)
	}
	if change.Kind == "" {
		return Reply{Result: provider.Result{Text: "The file already holds exactly this."}, Did: did}
	}
	diff, err := workspace.Diff(ctx, b.o.Contents, change)
	if err != nil {
		return Refused(did, err)
	}
	detail := strings.Join(diff.Notes, "\n")
	if diff.Text != "" {
		detail = strings.TrimPrefix(detail+"\n", "\n") + diff.Text
	}
	return Reply{Did: did, Ask: &coord.Request{Kind: coord.WriteFile, Change: &change, Content: coord.RequestContent{
		Title: fmt.Sprintf("%s, +%d -%d", describe(change), diff.Added, diff.Removed), Tool: toolWrite, Detail: detail, Cut: diff.Cut}}}
}

// describe names a change in a few words.
func describe(c coord.FileChange) string {
	if c.Kind == coord.FileRenamed {
		return fmt.Sprintf("rename %s to %s", c.From, c.Path)
	}
	verb := map[coord.ChangeKind]string{coord.FileNew: "make", coord.FileChanged: "change", coord.FileDeleted: "delete"}[c.Kind]
	return verb + " " + c.Path
}
