package netguard

import (
	"net/netip"
)

// special is one row of the table of addresses that are not what they seem.
type special struct {
	prefix netip.Prefix
	kind   kind
	// name says what it is, and follows "is" in an error.
	name string
}

// kind is what an address may be used for.
type kind int

const (
	// never may be connected to in no case.
	never kind = iota
	// private is a network of the operator's own, or this machine.
	private
	// public is reachable from everywhere.
	public
)

// specials are all ranges that are not simply public, the narrower before the
// wider: the first that holds an address decides. Sources: the IANA IPv4 and
// IPv6 Special-Purpose Address Registries (RFC 6890, as of 2026), each row with
// its RFC; and addresses on which clouds and machines serve secrets or settings
// to whoever asks, which lie in ranges that are otherwise private or public.
var specials = []special{
	// Services of clouds.
	row("100.100.100.200/32", never, "a metadata service"),          // Alibaba Cloud
	row("100.100.100.100/32", never, "a machine's own service"),     // Tailscale's resolver and settings
	row("168.63.129.16/32", never, "a metadata service"),            // Azure's wire server
	row("fd00:ec2::/32", never, "a metadata service"),               // AWS: instance data, names, time, identities
	row("fd20:ce::/32", never, "a metadata service"),                // Google Cloud: fd20:ce::254
	row("fd00:c1::/32", never, "a metadata service"),                // Oracle Cloud: fd00:c1::a9fe:a9fe
	row("fd00:42::42/128", never, "a metadata service"),             // Scaleway
	row("fd7a:115c:a1e0::53/128", never, "a machine's own service"), // Tailscale's resolver and settings

	// IPv4.
	row("0.0.0.0/8", never, "an address of this network"), // RFC 791, 3.2
	row("10.0.0.0/8", private, "private"),                 // RFC 1918
	row("100.64.0.0/10", private, "shared"),               // RFC 6598; tailnets live here
	row("127.0.0.0/8", private, "loopback"),               // RFC 1122, 3.2.1.3
	row("169.254.0.0/16", never, "link-local"),            // RFC 3927; metadata of most clouds
	row("172.16.0.0/12", private, "private"),              // RFC 1918
	row("192.0.0.0/24", never, "reserved for protocols"),  // RFC 6890, 2.1; RFC 7335, 7723, 8155, 9440 within
	row("192.0.2.0/24", never, "for documentation"),       // RFC 5737, TEST-NET-1
	row("192.31.196.0/24", never, "a sink of names"),      // RFC 7535, AS112-v4
	row("192.52.193.0/24", never, "a multicast tunnel"),   // RFC 7450, AMT
	row("192.88.99.0/24", never, "a 6to4 relay"),          // RFC 7526, deprecated
	row("192.168.0.0/16", private, "private"),             // RFC 1918
	row("192.175.48.0/24", never, "a sink of names"),      // RFC 7534, AS112
	row("198.18.0.0/15", never, "for benchmarks"),         // RFC 2544
	row("198.51.100.0/24", never, "for documentation"),    // RFC 5737, TEST-NET-2
	row("203.0.113.0/24", never, "for documentation"),     // RFC 5737, TEST-NET-3
	row("224.0.0.0/4", never, "multicast"),                // RFC 5771
	row("240.0.0.0/4", never, "reserved"),                 // RFC 1112, 4; RFC 8190 and 919: 255.255.255.255

	// IPv6.
	row("::/128", never, "unspecified"),                       // RFC 4291, 2.5.2
	row("::1/128", private, "loopback"),                       // RFC 4291, 2.5.3
	row("::ffff:0:0/96", never, "a mapped IPv4 address"),      // RFC 4291, 2.5.5.2
	row("::/96", never, "an IPv4-compatible address"),         // RFC 4291, 2.5.5.1, deprecated
	row("64:ff9b::/96", never, "a translated IPv4 address"),   // RFC 6052, NAT64
	row("64:ff9b:1::/48", never, "a translated IPv4 address"), // RFC 8215, NAT64 of a site
	row("100::/64", never, "a sink"),                          // RFC 6666, discard-only
	row("100:0:0:1::/64", never, "a dummy"),                   // RFC 9780
	row("2001::/32", never, "a Teredo tunnel"),                // RFC 4380, 8190
	row("2001:2::/48", never, "for benchmarks"),               // RFC 5180
	row("2001:10::/28", never, "a hash and no address"),       // RFC 4843, ORCHID, deprecated
	row("2001:20::/28", never, "a hash and no address"),       // RFC 7343, ORCHIDv2
	row("2001::/23", never, "reserved for protocols"),         // RFC 2928; RFC 7450, 7535, 7723, 8155, 9374, 9665 within
	row("2001:db8::/32", never, "for documentation"),          // RFC 3849
	row("2002::/16", never, "a 6to4 tunnel"),                  // RFC 3056
	row("2620:4f:8000::/48", never, "a sink of names"),        // RFC 7534, AS112
	row("3fff::/20", never, "for documentation"),              // RFC 9637
	row("5f00::/16", never, "a segment of a route"),           // RFC 9602, SRv6
	row("fc00::/7", private, "private"),                       // RFC 4193, unique local
	row("fe80::/10", never, "link-local"),                     // RFC 4291, 2.5.6
	row("fec0::/10", never, "site-local"),                     // RFC 3879, deprecated
	row("ff00::/8", never, "multicast"),                       // RFC 4291, 2.7
}

// allocated is what of IPv6 is given out at all (RFC 4291, 2.4; IANA IPv6
// Address Space). What lies outside and in no row above is nobody's.
var allocated = netip.MustParsePrefix("2000::/3")

func row(prefix string, k kind, name string) special {
	return special{netip.MustParsePrefix(prefix), k, name}
}

// classify says what an address may be used for, and what it is if that is not
// simply public.
func classify(addr netip.Addr) (k kind, name string) {
	if !addr.IsValid() {
		return never, "invalid"
	}
	if addr.Zone() != "" {
		return never, "bound to an interface"
	}
	if isatap(addr) {
		return never, "an ISATAP tunnel"
	}
	for _, s := range specials {
		// Prefixes of IPv4 do not contain the mapped forms.
		if s.prefix.Contains(addr) {
			return s.kind, s.name
		}
	}
	if addr.Is6() && !allocated.Contains(addr) {
		return never, "not allocated"
	}
	return public, "public"
}

// isatap reports an interface identifier that holds an IPv4 address which a
// tunnel would send to (RFC 5214, 6.1).
func isatap(addr netip.Addr) bool {
	b := addr.As16()
	return addr.Is6() && b[8]&^0x03 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}

// allowed says why an address may not be connected to, or "".
func allowed(addr netip.Addr, asPrivate bool) string {
	switch k, name := classify(addr); {
	case k == never:
		return "is " + name + ", which is never allowed"
	case k == public && asPrivate:
		return "is public, and the registration allows private addresses alone"
	case k == private && !asPrivate:
		return "is " + name + ", which the registration does not allow (private = true does)"
	}
	return ""
}
