package synthesis_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/internal/coord"
	"signalbox/internal/journal"
	"signalbox/internal/synthesis"
)

func (w *world) export(j coord.Job) []byte {
	w.t.Helper()
	var b bytes.Buffer
	if err := w.Export(w.t.Context(), ref(j), &b); err != nil {
		w.t.Fatal(err)
	}
	return b.Bytes()
}

func verify(t *testing.T, b []byte) synthesis.Report {
	t.Helper()
	rep, err := synthesis.Verify(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// unzip gives the members in order.
func unzip(t *testing.T, b []byte) (names []string, content map[string][]byte) {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	content = map[string][]byte{}
	for _, f := range z.File {
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if content[f.Name], err = io.ReadAll(in); err != nil {
			t.Fatal(err)
		}
		names = append(names, f.Name)
	}
	return names, content
}

func rezip(t *testing.T, names []string, content map[string][]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, n := range names {
		out, err := z.Create(n)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write(content[n]); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestExportIsWholeAndTheSameEachTime(t *testing.T) {
	w := newWorld(t)
	j := w.story()
	first := w.export(j)
	rep := verify(t, first)
	if len(rep.Faults) != 0 || rep.Job != j.ID || rep.Number != 1 || rep.Digest != j.Grant.Digest || rep.Members != 11 || rep.Bytes == 0 {
		t.Errorf("verified as %+v", rep)
	}
	if again := w.export(j); !bytes.Equal(first, again) {
		t.Error("the same journal gave other bytes")
	}
	names, content := unzip(t, first)
	if names[len(names)-1] != "manifest.json" {
		t.Errorf("members %v", names)
	}
	if got := string(content["artifacts/"+digest([]byte("the report"))]); got != "the report" {
		t.Errorf("the artifact is %q", got)
	}
	var before int64
	for line := range bytes.Lines(content["events.ndjson"]) {
		var e coord.Event
		if err := json.Unmarshal(line, &e); err != nil || e.Seq <= before || e.Job != j.ID {
			t.Fatalf("event %s after %d: %v", line, before, err)
		}
		before = e.Seq
	}
	if before == 0 {
		t.Error("there are no events")
	}
}

func TestExportPagesThroughManyEvents(t *testing.T) {
	w := newWorld(t)
	j := w.start("a")
	a := w.dispatch(j, "a", intend, receive)
	var pieces []string
	for i := range 1000 {
		pieces = append(pieces, fmt.Sprintf("%d ", i))
	}
	w.says(a, coord.ChannelMessage, pieces...)
	_, content := unzip(t, w.export(j))
	if n := bytes.Count(content["events.ndjson"], []byte(`"attempt.text"`)); n != 1000 {
		t.Errorf("%d text events", n)
	}
}

func TestExportNamesWhatItDoesNotHold(t *testing.T) {
	w := newWorld(t)
	j := w.start("a")
	a := w.dispatch(j, "a", intend, receive)
	missing, damaged := w.keeps(a, "missing", "one"), w.keeps(a, "damaged", "two")
	path := func(sha string) string { return filepath.Join(w.dir, "artifacts", sha[:2], sha[2:]) }
	if err := os.Remove(path(missing.SHA256)); err != nil {
		t.Fatal(err)
	}
	write(t, path(damaged.SHA256), []byte("other"))
	b := w.export(j)
	if rep := verify(t, b); len(rep.Faults) != 0 || rep.Absent != 2 {
		t.Errorf("verified as %+v", rep)
	}
	_, content := unzip(t, b)
	for _, want := range []string{"the bytes are missing from the store", "the stored bytes do not match their digest"} {
		if !bytes.Contains(content["manifest.json"], []byte(want)) {
			t.Errorf("the manifest does not say %q", want)
		}
	}
}

func TestDraftCanBeExported(t *testing.T) {
	w := newWorld(t)
	var j coord.Job
	w.do(func(tx *journal.Tx) (err error) {
		j, err = tx.AddJob(coord.Job{Plan: coord.Plan{Title: "x"}, By: ada})
		return err
	})
	if rep := verify(t, w.export(j)); len(rep.Faults) != 0 || rep.Digest != "" {
		t.Errorf("%+v", rep)
	}
}

func TestVerifyFindsWhatWasChanged(t *testing.T) {
	w := newWorld(t)
	names, content := unzip(t, w.export(w.story()))
	shaName := "artifacts/" + digest([]byte("the report"))
	// relist makes the manifest agree with changed content, as a forger would.
	relist := func(c map[string][]byte, name string) {
		var m map[string]any
		if err := json.Unmarshal(c["manifest.json"], &m); err != nil {
			t.Fatal(err)
		}
		list, _ := m["members"].([]any)
		for _, one := range list {
			if e, ok := one.(map[string]any); ok && e["name"] == name {
				e["sha256"], e["size"] = digest(c[name]), len(c[name])
			}
		}
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		c["manifest.json"] = b
	}
	replace := func(c map[string][]byte, name, old, new string) {
		if !bytes.Contains(c[name], []byte(old)) {
			t.Fatalf("%s does not hold %q", name, old)
		}
		c[name] = bytes.Replace(c[name], []byte(old), []byte(new), 1)
	}
	cases := []struct {
		name   string
		change func(names []string, c map[string][]byte) []string
		want   string
	}{
		{"a changed member", func(n []string, c map[string][]byte) []string { c["README.txt"][0] ^= 1; return n }, "README.txt has other content"},
		{"a longer member", func(n []string, c map[string][]byte) []string {
			c["README.txt"] = append(c["README.txt"], 'x')
			return n
		}, "README.txt has another size"},
		{"a missing member", func(n []string, _ map[string][]byte) []string { return n[1:] }, "README.txt is missing"},
		{"an extra artifact", func(n []string, c map[string][]byte) []string {
			extra := "artifacts/" + strings.Repeat("0", 64)
			c[extra] = []byte("x")
			return append([]string{extra}, n...)
		}, "is not in the manifest"},
		{"a name that leads out", func(n []string, c map[string][]byte) []string {
			c["../evil"] = []byte("x")
			return append([]string{"../evil"}, n...)
		}, "a name that no export gives"},
		{"a member twice", func(n []string, _ map[string][]byte) []string { return append([]string{"job.json"}, n...) }, "job.json is there twice"},
		{"a forged artifact", func(n []string, c map[string][]byte) []string {
			c[shaName] = []byte("the forgery")
			relist(c, shaName)
			return n
		}, "other content than its name says"},
		{"a forged plan", func(n []string, c map[string][]byte) []string {
			replace(c, "frozen.json", "Do good", "Do evil")
			relist(c, "frozen.json")
			return n
		}, "frozen.json does not have the digest that it states"},
		{"a forged grant", func(n []string, c map[string][]byte) []string {
			replace(c, "job.json", `"digest": "`, `"digest": "0`)
			relist(c, "job.json")
			return n
		}, "the grant is for another plan"},
		{"a forged request", func(n []string, c map[string][]byte) []string {
			replace(c, "requests.json", `"Write"`, `"Read"`)
			relist(c, "requests.json")
			return n
		}, "request r1 does not ask for what its digest says"},
		{"a manifest that leaves things out", func(_ []string, c map[string][]byte) []string {
			c["manifest.json"] = []byte(`{"format":"signalbox-job","version":1,"members":[]}`)
			return []string{"manifest.json"}
		}, "does not list events.ndjson"},
		{"a manifest that promises too much", func(n []string, c map[string][]byte) []string {
			replace(c, "manifest.json", `"size": `, `"size": 99999999999`)
			return n
		}, "more than an export may hold"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			copied := map[string][]byte{}
			for n, b := range content {
				copied[n] = bytes.Clone(b)
			}
			n := c.change(append([]string(nil), names...), copied)
			rep := verify(t, rezip(t, n, copied))
			if !strings.Contains(strings.Join(rep.Faults, "\n"), c.want) {
				t.Errorf("no fault says %q: %q", c.want, rep.Faults)
			}
		})
	}
}

func TestVerifyRefusesWhatIsNoExport(t *testing.T) {
	cases := []struct {
		name string
		data []byte
		code coord.Code
	}{
		{"nothing", nil, coord.Invalid},
		{"no zip", []byte("hello"), coord.Invalid},
		{"another zip", rezip(t, []string{"README.txt"}, map[string][]byte{}), coord.Invalid},
		{"another manifest", rezip(t, []string{"manifest.json"}, map[string][]byte{"manifest.json": []byte(`{"format":"x"}`)}), coord.Invalid},
		{"a manifest that is no JSON", rezip(t, []string{"manifest.json"}, map[string][]byte{"manifest.json": []byte("x")}), coord.Invalid},
		{"a later version", rezip(t, []string{"manifest.json"}, map[string][]byte{"manifest.json": []byte(`{"format":"signalbox-job","version":2}`)}), coord.Unsupported},
	}
	for _, c := range cases {
		if rep, err := synthesis.Verify(bytes.NewReader(c.data), int64(len(c.data))); coord.CodeOf(err) != c.code {
			t.Errorf("%s gave %+v, %v", c.name, rep, err)
		}
	}
}

func TestVerifyUnpacksNoMoreThanTheManifestSays(t *testing.T) {
	w := newWorld(t)
	names, content := unzip(t, w.export(w.story()))
	content["README.txt"] = make([]byte, 64<<20) // packs to some kilobytes
	rep := verify(t, rezip(t, names, content))
	if !strings.Contains(strings.Join(rep.Faults, "\n"), "README.txt has another size") {
		t.Errorf("faults %q", rep.Faults)
	}
	if rep.Bytes > 1<<20 {
		t.Errorf("%d bytes counted", rep.Bytes)
	}
}

// FuzzVerify: whatever is handed in, verification ends without a panic, and
// only an export is without faults.
func FuzzVerify(f *testing.F) {
	f.Add([]byte("PK\x05\x06"))
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	out, err := z.Create("manifest.json")
	if err != nil {
		f.Fatal(err)
	}
	if _, err := out.Write([]byte(`{"format":"signalbox-job","version":1,"members":[{"name":"job.json","size":1,"sha256":""}]}`)); err != nil {
		f.Fatal(err)
	}
	if err := z.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		rep, err := synthesis.Verify(bytes.NewReader(data), int64(len(data)))
		if err == nil && len(rep.Faults) == 0 && rep.Members < 9 {
			t.Errorf("accepted with %d members", rep.Members)
		}
	})
}
