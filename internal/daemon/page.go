package daemon

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"net/http"
	"regexp"
	"strings"
)

// page is an HTML page that may run exactly the script and style it holds.
type page struct{ html, policy string }

//go:embed page/home.html
var homeHTML string

//go:embed page/pair.html
var pairHTML string

func newPage(html string) page {
	inline := regexp.MustCompile(`(?s)<(script|style)>(.*?)</(?:script|style)>`)
	policy := []string{"default-src 'none'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'", "connect-src 'self'"}
	for _, m := range inline.FindAllStringSubmatch(html, -1) {
		sum := sha256.Sum256([]byte(m[2]))
		policy = append(policy, m[1]+"-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
	}
	return page{html, strings.Join(policy, "; ")}
}

func (p page) serve(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", p.policy)
	w.Header().Set("Cache-Control", "no-store")
	// A browser that went away needs no page.
	_, _ = w.Write([]byte(p.html))
}
