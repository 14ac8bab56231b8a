package a2a

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
)

// maxHeld bounds the bytes of files that one attempt's artifacts are held with
// until its end: what one answer of the peer can carry.
const maxHeld = maxAnswer

// maxPieces bounds the artifacts of one task: agents make a handful.
const maxPieces = 1000

// file is a piece of an artifact that is no text.
type file struct {
	name, media, reference string
	bytes                  []byte
}

// piece is one artifact as far as it is known.
type piece struct {
	id    string
	text  []byte
	files []file
	// seen is how much text there was, kept or not.
	seen int
}

// view is the artifacts of one task, put together by the rules of the protocol:
// an update for an unknown artifact creates it, one that does not append
// replaces it, and a task that is told whole replaces all.
//
// Text is shown as it comes, and what was shown cannot be taken back. So the
// view knows whether all that was shown is exactly the answer; where it is not,
// the end carries the answer anew.
type view struct {
	pieces []*piece
	// amended is set when what was shown is not the answer.
	amended bool
	// shown is the piece that text was last shown of.
	shown *piece
	// text and held are the bytes kept of text and of files, and files is how
	// many of these there are; unkept and undecodable count what was let go.
	text, held, files   int
	unkept, undecodable int
}

// merge applies an update and gives the text to be shown.
func (v *view) merge(u artifactUpdate) string {
	id := u.Artifact.key()
	p := v.find(id)
	if p == nil && len(v.pieces) == maxPieces {
		v.unkept++
		return ""
	}
	if p == nil {
		p = &piece{id: id}
		v.pieces = append(v.pieces, p)
	} else if !u.Append {
		return v.replace(p, u.Artifact)
	}
	return v.extend(p, u.Artifact)
}

// snapshot replaces all artifacts by those of a task that was told whole, and
// gives the text to be shown.
func (v *view) snapshot(all []artifact) string {
	old := v.pieces
	v.unkept, v.undecodable = max(0, len(all)-maxPieces), 0
	all = all[:len(all)-v.unkept]
	v.pieces = make([]*piece, len(all))
	for i, a := range all {
		id := a.key()
		v.pieces[i] = &piece{id: id}
		for j, o := range old {
			if o != nil && o.id == id {
				v.pieces[i], old[j] = o, nil
				v.amended = v.amended || i != j // in another order than it was shown
				break
			}
		}
	}
	for _, o := range old {
		if o != nil {
			v.forget(o)
			v.amended = v.amended || o.seen > 0
		}
	}
	var out strings.Builder
	for i, a := range all {
		out.WriteString(v.replace(v.pieces[i], a))
	}
	return out.String()
}

// key is the id of an artifact, or its hash where that is long: the ids of all
// artifacts are held until the end.
func (a artifact) key() string {
	if len(a.ID) <= maxID {
		return a.ID
	}
	sum := sha256.Sum256([]byte(a.ID))
	return hex.EncodeToString(sum[:])
}

func (v *view) find(id string) *piece {
	for _, p := range v.pieces {
		if p.id == id {
			return p
		}
	}
	return nil
}

// forget takes what is held of a piece off the accounts.
func (v *view) forget(p *piece) {
	v.text -= len(p.text)
	v.files -= len(p.files)
	for _, f := range p.files {
		v.held -= len(f.bytes)
	}
}

// replace gives a piece new content. Where that only goes on from what was
// there, what is new of it is shown; otherwise all is, since nobody can tell
// from a part what became of the rest.
func (v *view) replace(p *piece, a artifact) string {
	before, seen := string(p.text), p.seen
	v.forget(p)
	p.text, p.files, p.seen = nil, nil, 0
	whole := v.take(p, a)
	if strings.HasPrefix(whole, before) && len(whole) >= seen {
		return v.show(p, whole[seen:])
	}
	v.amended = true
	return v.show(p, whole)
}

func (v *view) extend(p *piece, a artifact) string { return v.show(p, v.take(p, a)) }

// take adds the parts of an artifact to a piece, within the bounds, and gives
// all of their text.
func (v *view) take(p *piece, a artifact) string {
	var whole []string // of one mostly, which is not copied then
	for _, q := range a.Parts {
		if q.Text != nil {
			whole = append(whole, *q.Text)
			p.seen += len(*q.Text)
			room := max(0, coord.MaxAnswerText-v.text)
			kept := strings.ToValidUTF8((*q.Text)[:min(room, len(*q.Text))], "")
			v.text += len(kept)
			p.text = append(p.text, kept...)
			continue
		}
		f, ok, bad := q.file(or(a.Name, a.ID))
		switch {
		case bad:
			v.undecodable++
		case !ok:
		case v.held+len(f.bytes) > maxHeld || v.files >= coord.MaxContents:
			v.unkept++
		default:
			v.held += len(f.bytes)
			v.files++
			p.files = append(p.files, f)
		}
	}
	return strings.Join(whole, "")
}

// between stands between two artifacts.
const between = "\n\n"

// show gives text of a piece as it is to be shown.
func (v *view) show(p *piece, text string) string {
	if text == "" {
		return ""
	}
	later := false
	for _, q := range v.pieces {
		v.amended = v.amended || later && q.seen > 0 // that was shown before this text
		later = later || q == p
	}
	if v.shown != p && v.shown != nil {
		text = between + text
	}
	v.shown = p
	return text
}

// answer is all text of the artifacts, in their order.
func (v *view) answer() string {
	var b strings.Builder
	for _, p := range v.pieces {
		if len(p.text) == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(between)
		}
		b.Write(p.text)
	}
	return b.String()
}

// cut reports whether the answer is longer than what is kept of it.
func (v *view) cut() bool {
	seen := 0
	for _, p := range v.pieces {
		seen += p.seen
	}
	return seen > v.text
}

// told is the answer as it is told in the end. Where it is longer than what is
// kept, it ends before half a word, which may be half a secret.
func (v *view) told() string {
	all := v.answer()
	if v.cut() {
		all = clip(all+"...", len(all))
	}
	return all
}

// closing adds the message that a completed task ends with to the answer, and
// gives the text to be shown: with many agents it is all of the answer. Some
// repeat the answer there.
func (v *view) closing(m *message) string {
	if m == nil || strings.TrimSpace(m.text()) == strings.TrimSpace(v.answer()) {
		return ""
	}
	return v.merge(artifactUpdate{Artifact: artifact{ID: "\x00status " + m.ID, Name: "message", Parts: m.Parts}})
}

// contents gives what is no text, and how much of it could not be kept.
func (v *view) contents() []provider.Event {
	var out []provider.Event
	for _, p := range v.pieces {
		for _, f := range p.files {
			out = append(out, f.event())
		}
	}
	if n := v.unkept + v.undecodable; n > 0 {
		out = append(out, provider.Event{Kind: provider.EventActivity, Activity: &coord.Activity{Kind: "artifact", Title: "parts of artifacts",
			Status: "not kept", Detail: countOf(v.unkept, "beyond what is kept of one attempt") + countOf(v.undecodable, "no valid base64")}})
	}
	return out
}

func (f file) event() provider.Event {
	return provider.Event{Kind: provider.EventContent, Content: &provider.Content{Name: f.name, Media: f.media, Bytes: f.bytes, Reference: f.reference}}
}
