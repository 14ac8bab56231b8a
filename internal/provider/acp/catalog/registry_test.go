package catalog_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
	"signalbox/internal/provider/acp/catalog"
)

func TestRegistryWithTheQuirksOfRealOnesIsRead(t *testing.T) {
	f, err := os.Open("testdata/registry.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	found, skipped, err := catalog.Import(f)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range found {
		got = append(got, fmt.Sprintf("%s %q %v floating=%v", s.ID, s.Program, s.Args, s.Floating))
	}
	want := []string{
		`claude-acp "" [] floating=true`,
		`gemini "" [--acp] floating=true`,
		`cursor "cursor-agent" [acp] floating=false`,
		`backslash "tool.exe" [] floating=false`,
		`fast-agent "" [-x] floating=true`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	wantSkipped := []catalog.Skipped{
		{Entry: "windows-only", Reason: "it has no program for this system"},
		{Entry: "nothing", Reason: "it has no distribution that is known here"},
		{Entry: "agent 7", Reason: "its id may not name an agent"},
		{Entry: "agent 8", Reason: "it cannot be read"},
		{Entry: "gemini", Reason: "its id stands twice in the file"},
		{Entry: "token-thief", Reason: "it sets a variable that no agent may set"},
	}
	if diff := cmp.Diff(wantSkipped, skipped); diff != "" {
		t.Error(diff)
	}
}

func TestRegistryThatIsNoneIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		code coord.Code
	}{
		"no JSON":    {"<html>", coord.Invalid},
		"no agents":  {`{"version":"1.0.0"}`, coord.Invalid},
		"a list":     {`[]`, coord.Invalid},
		"too large":  {`{"agents":["` + strings.Repeat("x", coord.MaxBody) + `"]}`, coord.Limit},
		"too many":   {`{"agents":[` + strings.Repeat("1,", 1000) + `1]}`, coord.Limit},
		"empty file": {"", coord.Invalid},
	} {
		if _, _, err := catalog.Import(strings.NewReader(c.text)); coord.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzImport(f *testing.F) {
	data, err := os.ReadFile("testdata/registry.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(data))
	f.Add(`{"agents":[{"id":"a","distribution":{"npx":{"package":"p","args":null,"env":{"":""}}}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		found, _, err := catalog.Import(strings.NewReader(text))
		if err != nil && len(found) > 0 {
			t.Error("suggestions came with an error")
		}
		for _, s := range found {
			if !coord.ValidAgentID(s.ID) || (s.Program == "") != s.Floating || strings.ContainsAny(s.Program, "/\\") && s.Program != "/" {
				t.Errorf("the suggestion is %+v", s)
			}
		}
	})
}

func TestPresetsNameProgramsAndNeverFetchers(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range catalog.Presets() {
		if !coord.ValidAgentID(s.ID) || seen[s.ID] || s.Name == "" || s.Program == "" || s.Floating {
			t.Errorf("the preset is %+v", s)
		}
		seen[s.ID] = true
		if s.ID == "opencode" && len(s.RandomEnv) != 1 {
			t.Errorf("OpenCode's port has no password: %+v", s)
		}
	}
}
