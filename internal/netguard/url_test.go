package netguard

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"testing"

	"signalbox/internal/coord"
)

// urlCase is a line of testdata/urls.txt.
type urlCase struct {
	line          int
	verdict, text string
	why           string
}

// urlCases reads the table: a verdict, the address as a Go string, and why, in
// columns between bars. The verdict is "refused", or the canonical form of what
// is accepted.
func urlCases(t testing.TB) []urlCase {
	t.Helper()
	f, err := os.Open("testdata/urls.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []urlCase
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.Split(line, " | ")
		if len(parts) != 3 {
			t.Fatalf("line %d has %d columns", n, len(parts))
		}
		text, err := strconv.Unquote(strings.TrimSpace(parts[0]))
		if err != nil {
			t.Fatalf("line %d: %v", n, err)
		}
		out = append(out, urlCase{n, strings.TrimSpace(parts[1]), text, strings.TrimSpace(parts[2])})
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAddressesOfPeersAreReadInOneWayOrRefused(t *testing.T) {
	cases := urlCases(t)
	if len(cases) < 200 {
		t.Fatalf("only %d addresses", len(cases))
	}
	for _, c := range cases {
		u, err := ParseURL(c.text)
		got := "refused"
		if err == nil {
			got = u.String()
		} else if coord.CodeOf(err) != coord.Invalid || len(c.text) > 12 && strings.Contains(err.Error(), c.text) {
			t.Errorf("line %d: the error %q", c.line, err)
		}
		if got != c.verdict {
			t.Errorf("line %d: %q is %s (%v), want %s: %s", c.line, c.text, got, err, c.verdict, c.why)
		}
	}
}

func TestAnAddressHasABound(t *testing.T) {
	longest := "https://peer.example/" + strings.Repeat("a", coord.MaxURL-len("https://peer.example/"))
	if _, err := ParseURL(longest); err != nil {
		t.Errorf("the longest: %v", err)
	}
	label := strings.Repeat("a", 63)
	longHost := label + "." + label + "." + label + "." + strings.Repeat("a", 61)
	if _, err := ParseURL("https://" + longHost); err != nil {
		t.Errorf("the longest host: %v", err)
	}
	for name, s := range map[string]string{
		"one byte more": longest + "a", "a host of 254 bytes": "https://" + longHost + "a", "a label of 64 bytes": "https://" + label + "a.example",
	} {
		if _, err := ParseURL(s); coord.CodeOf(err) != coord.Invalid || len(err.Error()) > 200 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnOriginIsExact(t *testing.T) {
	for s, want := range map[string]string{
		"https://peer.example": "https://peer.example", "https://peer.example/": "https://peer.example",
		"HTTPS://Peer.Example:443": "https://peer.example", "http://peer.example:80": "http://peer.example",
		"https://peer.example:80": "https://peer.example:80", "https://[2001:DB8:0::1]:8443": "https://[2001:db8::1]:8443",
		"https://peer.example/a": "", "https://peer.example//": "", "https://peer.example?": "", "https://peer.example/?": "",
		"https://peer.example#": "", "peer.example": "", "//peer.example": "", "https://*.example": "", "null": "", "": "",
		"https://peer.example,https://other.example": "", "https://peer.example https://other.example": "",
	} {
		got, err := ParseOrigin(s)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, %v, want %q", s, got, err, want)
		}
	}
}

// FuzzParseURL reads any text: what is accepted is canonical, has no part that
// could be read in two ways, and is read by itself as the same.
func FuzzParseURL(f *testing.F) {
	for _, c := range urlCases(f) {
		f.Add(c.text)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := ParseURL(s)
		if err != nil {
			if coord.CodeOf(err) != coord.Invalid {
				t.Fatalf("%q: %v", s, err)
			}
			return
		}
		again := u.String()
		if v, err := ParseURL(again); err != nil || v.String() != again {
			t.Fatalf("%q is %q, which is %v, %v", s, again, v, err)
		}
		if u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.Opaque != "" || u.Scheme != "http" && u.Scheme != "https" ||
			strings.ContainsAny(again, "\\@ %2f?#\t\r\n") && strings.ContainsAny(u.Host, "\\@%?#") || strings.HasSuffix(u.Hostname(), ".") || strings.Contains(u.Path, "/../") {
			t.Fatalf("%q is accepted as %q", s, again)
		}
		if o, err := ParseOrigin(OriginOf(u)); err != nil || o != OriginOf(u) {
			t.Fatalf("the origin of %q is %q, %v", again, o, err)
		}
	})
}
