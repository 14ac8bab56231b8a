package netguard

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"signalbox/internal/coord"
)

// ParseURL reads the address of a peer by rules under which no two programs can
// read it differently. It gives the canonical form: scheme and host in lower
// case, an IPv6 address as in RFC 5952, no default port, "/" for no path. The
// error is Invalid, says what is wrong, and repeats nothing of s.
//
// Allowed are http and https, a host of ASCII letters, digits and hyphens
// (RFC 1123), an IPv4 address in dotted decimal or an IPv6 address in brackets,
// a port, and a path of RFC 3986 without empty, "." and ".." segments. Host
// names of other scripts are accepted as punycode alone: it is what goes to the
// DNS, and it shows that a letter is not the one that it looks like.
func ParseURL(s string) (*url.URL, error) {
	if len(s) > coord.MaxURL {
		return nil, wrong("it is longer than %d bytes", coord.MaxURL)
	}
	for _, r := range s {
		if r <= ' ' || r >= 0x7f {
			return nil, wrong("it has a space, a control character or one beyond ASCII: write a host name as punycode and a path with %%XX")
		}
	}
	scheme, rest, found := strings.Cut(s, "://")
	scheme = strings.ToLower(scheme)
	if !found || scheme != "http" && scheme != "https" {
		return nil, wrong("it does not begin with https:// or http://")
	}
	switch {
	case strings.Contains(rest, `\`):
		return nil, wrong("it has a backslash")
	case strings.Contains(rest, "#"):
		return nil, wrong("it has a fragment")
	case strings.Contains(rest, "?"):
		return nil, wrong("it has a query")
	}
	authority, path := rest, "/"
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	host, err := parseAuthority(scheme, authority)
	if err != nil {
		return nil, err
	}
	if err := checkPath(path); err != nil {
		return nil, err
	}
	// By now the standard library can read it in one way only.
	u, err := url.Parse(scheme + "://" + host + path)
	if err != nil {
		return nil, wrong("it cannot be read")
	}
	return u, nil
}

// ParseOrigin reads an exact origin, https://host or https://host:port, and
// gives its canonical form (RFC 6454, 6.2). The error is as that of ParseURL.
func ParseOrigin(s string) (string, error) {
	u, err := ParseURL(s)
	if err != nil {
		return "", err
	}
	// A slash at the end is how people copy an origin from a browser.
	if u.Path != "/" {
		return "", wrong("an origin has no path")
	}
	return OriginOf(u), nil
}

// OriginOf gives the canonical origin of an address that ParseURL gave.
func OriginOf(u *url.URL) string { return u.Scheme + "://" + u.Host }

// parseAuthority gives host and port in canonical form.
func parseAuthority(scheme, authority string) (string, error) {
	if strings.Contains(authority, "@") {
		return "", wrong("it has a user or a password: name a credential instead")
	}
	var host, port string
	var hasPort bool
	if strings.HasPrefix(authority, "[") {
		end := strings.IndexByte(authority, ']')
		if end < 0 {
			return "", wrong("its IPv6 address has no closing bracket")
		}
		host, port = authority[:end+1], authority[end+1:]
		if port != "" {
			if port[0] != ':' {
				return "", wrong("something stands after its IPv6 address")
			}
			port, hasPort = port[1:], true
		}
	} else {
		host, port, hasPort = strings.Cut(authority, ":")
	}
	host, err := parseHost(host)
	if err != nil {
		return "", err
	}
	if !hasPort {
		return host, nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
		return "", wrong("its port is not a number from 1 to 65535 without leading zeros")
	}
	if scheme == "https" && n == 443 || scheme == "http" && n == 80 {
		return host, nil
	}
	return host + ":" + port, nil
}

func parseHost(host string) (string, error) {
	if inside, ok := strings.CutPrefix(host, "["); ok {
		inside = strings.TrimSuffix(inside, "]")
		if strings.Contains(inside, "%") {
			return "", wrong("its IPv6 address has a zone")
		}
		addr, err := netip.ParseAddr(inside)
		if err != nil || !addr.Is6() {
			return "", wrong("what stands in brackets is no IPv6 address")
		}
		// Two ways to write an IPv4 address are one too many.
		if addr.Is4In6() {
			return "", wrong("its IPv6 address is a mapped IPv4 address: write the IPv4 address")
		}
		return "[" + addr.String() + "]", nil
	}
	host = strings.ToLower(host)
	switch {
	case host == "":
		return "", wrong("it has no host")
	case len(host) > coord.MaxHost:
		return "", wrong("its host is longer than %d bytes", coord.MaxHost)
	case strings.HasSuffix(host, "."):
		return "", wrong("its host ends with a dot")
	case strings.Contains(host, "%"):
		return "", wrong("its host has a percent sign")
	}
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if err := checkLabel(label); err != nil {
			return "", err
		}
	}
	// A name whose last label is a number is read as an IPv4 address by
	// programs that follow the WHATWG, in decimal, octal or hex, with one to
	// four parts. Only the form that all read alike is left.
	if last := labels[len(labels)-1]; numeric(last) {
		addr, err := netip.ParseAddr(host)
		if err != nil || !addr.Is4() {
			return "", wrong("its host is a number but no IPv4 address of four decimal parts without leading zeros")
		}
	}
	return host, nil
}

// checkLabel holds one part of a host name to RFC 1123, 2.1, and RFC 1035, 2.3.4.
func checkLabel(label string) error {
	switch {
	case label == "":
		return wrong("its host has an empty part between dots")
	case len(label) > 63:
		return wrong("a part of its host is longer than 63 bytes")
	case label[0] == '-' || label[len(label)-1] == '-':
		return wrong("a part of its host begins or ends with a hyphen")
	}
	for i := range len(label) {
		if c := label[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return wrong("its host has a character that is no letter, digit or hyphen")
		}
	}
	return nil
}

// numeric is "ends in a number" of the WHATWG's URL standard, for one label.
func numeric(label string) bool {
	digits := "0123456789"
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		label, digits = hex, "0123456789abcdef"
	}
	return strings.Trim(label, digits) == ""
}

// pathChars are those of a path (RFC 3986, pchar), besides letters, digits,
// the slash and the percent sign.
const pathChars = "-._~!$&'()*+,;=:@"

func checkPath(path string) error {
	for i := 0; i < len(path); i++ {
		c := path[i]
		if c == '%' {
			b, err := strconv.ParseUint(path[i+1:min(i+3, len(path))], 16, 8)
			if err != nil || i+3 > len(path) {
				return wrong("its path has a percent sign without two hex digits")
			}
			// A dot, a slash or a control character that is written so is read
			// by some programs as what it is, and by others as itself.
			if b <= ' ' || b == 0x7f || strings.IndexByte(`./\%`, byte(b)) >= 0 {
				return wrong("its path hides a dot, a slash, a backslash, a percent sign, a space or a control character behind %%XX")
			}
			i += 2
			continue
		}
		if c != '/' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && strings.IndexByte(pathChars, c) < 0 {
			return wrong("its path has a character that must be written as %%XX")
		}
	}
	segments := strings.Split(path[1:], "/")
	for i, segment := range segments {
		// Some servers drop what follows a semicolon before they look for dots.
		name, _, _ := strings.Cut(segment, ";")
		if name == "." || name == ".." || segment == "" && i < len(segments)-1 {
			return wrong("its path has an empty, a . or a .. segment")
		}
	}
	return nil
}

// wrong makes the Invalid error for an address.
func wrong(format string, args ...any) error {
	return coord.Errorf(coord.Invalid, "this is no address of a peer: "+format, args...)
}
