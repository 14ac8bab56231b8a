package a2a

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"signalbox/internal/coord"
)

// TestTheAnswerIsWhatTheRulesOfArtifactsMake draws updates and whole tasks, and
// holds the view to the rules as they are written: what was shown is the answer,
// or the view says that it is not.
func TestTheAnswerIsWhatTheRulesOfArtifactsMake(t *testing.T) {
	words := rapid.SampledFrom([]string{"", "a", "b", "ab", "abc"})
	rapid.Check(t, func(t *rapid.T) {
		var v view
		var order []string
		model := map[string]string{}
		var shown strings.Builder
		parts := func(text string) []part {
			// In pieces or not, the text of an artifact is one.
			half := len(text) / 2
			first, second := text[:half], text[half:]
			return []part{{Text: &first}, {Text: &second}}
		}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			if rapid.IntRange(0, 3).Draw(t, "kind") > 0 {
				id, text, more := fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "id")), words.Draw(t, "text"), rapid.Bool().Draw(t, "append")
				shown.WriteString(v.merge(artifactUpdate{Artifact: artifact{ID: id, Parts: parts(text)}, Append: more}))
				if _, known := model[id]; !known {
					order = append(order, id)
				}
				if more {
					text = model[id] + text
				}
				model[id] = text
				continue
			}
			order, model = nil, map[string]string{}
			var all []artifact
			for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(0, 2), 0, 3, rapid.ID[int]).Draw(t, "ids") {
				id, text := fmt.Sprint(n), words.Draw(t, "whole")
				all = append(all, artifact{ID: id, Parts: parts(text)})
				order, model[id] = append(order, id), text
			}
			shown.WriteString(v.snapshot(all))
		}
		var texts []string
		size := 0
		for _, id := range order {
			if model[id] != "" {
				texts = append(texts, model[id])
			}
			size += len(model[id])
		}
		want := strings.Join(texts, between)
		if got := v.answer(); got != want {
			t.Errorf("the answer is %q, want %q", got, want)
		}
		if !v.amended && shown.String() != want {
			t.Errorf("shown was %q, which is told to be the answer %q", shown.String(), want)
		}
		if v.text != size {
			t.Errorf("%d bytes are on the account of %d", v.text, size)
		}
	})
}

func TestAnEndlessAnswerIsShownAndKeptToItsBound(t *testing.T) {
	var v view
	chunk := strings.Repeat("x", 1<<20)
	shown := 0
	for range 5 {
		shown += len(v.merge(artifactUpdate{Artifact: artifact{ID: "a", Parts: []part{{Text: &chunk}}}, Append: true}))
	}
	whole := strings.Repeat(chunk, 5)
	again := len(v.snapshot([]artifact{{ID: "a", Parts: []part{{Text: &whole}}}}))
	if shown != 5<<20 || again != 0 || len(v.answer()) != coord.MaxAnswerText || v.amended {
		t.Errorf("shown were %d bytes and %d again, kept are %d, amended %v", shown, again, len(v.answer()), v.amended)
	}
	file := strings.Repeat("AAAA", 4<<20) // 12 MB
	for range 4 {
		v.merge(artifactUpdate{Artifact: artifact{ID: "b", Parts: []part{{Raw: &file}}}, Append: true})
	}
	if v.held > maxHeld || v.unkept != 2 {
		t.Errorf("%d bytes of files are held, %d were let go", v.held, v.unkept)
	}
}

func TestWhatIsHeldOfNamesIsBounded(t *testing.T) {
	var v view
	long := strings.Repeat("x", 1<<20)
	address := "https://x.example/" + long
	for i := range 3 {
		id := fmt.Sprint(i) + long
		a := artifact{ID: id, Name: long, Parts: []part{{URL: &address, Filename: long, Media: long}}}
		v.merge(artifactUpdate{Artifact: a})
		v.merge(artifactUpdate{Artifact: a})
	}
	if len(v.pieces) != 3 {
		t.Fatalf("of three long ids there are %d artifacts", len(v.pieces))
	}
	for _, p := range v.pieces {
		f := p.files[0]
		if n := len(p.id) + len(f.name) + len(f.media) + len(f.reference); n > maxID+2*coord.MaxTitle+coord.MaxURL {
			t.Errorf("%d bytes are held of the names of one artifact", n)
		}
	}
}

func TestAnAnswerThatIsCutEndsBeforeHalfAWord(t *testing.T) {
	for _, tail := range []int{1, 3, 12} {
		text := strings.Repeat("x", coord.MaxAnswerText-tail-1) + " bearer-of-secrets"
		var v view
		v.merge(artifactUpdate{Artifact: artifact{ID: "a", Parts: []part{{Text: &text}}}})
		if got := v.told(); len(got) > coord.MaxAnswerText || strings.Contains(got, " b") || !strings.HasSuffix(got, "...") {
			t.Errorf("cut after %d bytes it ends with %q", tail, got[len(got)-20:])
		}
	}
	short := "bearer-of-secrets"
	var v view
	v.merge(artifactUpdate{Artifact: artifact{ID: "a", Parts: []part{{Text: &short}}}})
	if got := v.told(); got != short {
		t.Errorf("a whole answer is told as %q", got)
	}
}

func TestMembersAreCountedOutsideOfTexts(t *testing.T) {
	for doc, want := range map[string]int{
		`{}`: 1, `{"a":[1,2,3],"b":{}}`: 6, `{"a,{[":"x,{["}`: 1, `{"a\\":","}`: 1, `{"a\"":"\",\\\"{"}`: 1, `["\\\\",","]`: 2, `"{"`: 0, `[{},{}]`: 4,
	} {
		if got := countMembers([]byte(doc)); got != want {
			t.Errorf("%s has %d, want %d", doc, got, want)
		}
	}
}
