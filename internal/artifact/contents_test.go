package artifact_test

import (
	"bytes"
	"os"
	"testing"
	"time"

	"signalbox/internal/artifact"
	"signalbox/internal/coord"
)

func TestContentsComeBackExactly(t *testing.T) {
	c, err := artifact.NewContents(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"nothing": {}, "text": []byte("one\r\ntwo"), "no text": {0, 255, 7},
		"what looks like a secret": []byte("token = \"ghp_0123456789abcdefghijABCDEFGHIJ012345\"\n"),
		"the longest":              bytes.Repeat([]byte("x"), coord.MaxFile),
	} {
		t.Run(name, func(t *testing.T) {
			sha, err := c.Put(t.Context(), content)
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.Get(t.Context(), sha)
			if err != nil || !bytes.Equal(got, content) {
				t.Errorf("%d bytes came back as %d, %v", len(content), len(got), err)
			}
			if onDisk, err := os.ReadFile(c.Path(sha)); err != nil || !bytes.Equal(onDisk, content) {
				t.Errorf("the file holds %d bytes, %v", len(onDisk), err)
			}
		})
	}
	if _, err := c.Put(t.Context(), make([]byte, coord.MaxFile+1)); coord.CodeOf(err) != coord.Limit {
		t.Errorf("a content that is too long gives %v", err)
	}
	if _, err := c.Get(t.Context(), "00"+string(bytes.Repeat([]byte("a"), 62))); coord.CodeOf(err) != coord.NotFound {
		t.Errorf("a content that is not there gives %v", err)
	}
}

func TestASweepKeepsWhatIsNamedAndWhatIsYoung(t *testing.T) {
	c, err := artifact.NewContents(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	shas := map[string]string{}
	for _, name := range []string{"named", "left over", "young"} {
		if shas[name], err = c.Put(t.Context(), []byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-48 * time.Hour)
	for _, name := range []string{"named", "left over"} {
		if err := os.Chtimes(c.Path(shas[name]), old, old); err != nil {
			t.Fatal(err)
		}
	}
	removed, err := c.Sweep(t.Context(), map[string]bool{shas["named"]: true}, time.Now().Add(-24*time.Hour))
	if removed != 1 || err != nil {
		t.Errorf("%d contents removed, %v", removed, err)
	}
	for name, sha := range shas {
		_, err := c.Get(t.Context(), sha)
		if gone := coord.CodeOf(err) == coord.NotFound; gone != (name == "left over") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
