package netguard

import (
	"net/netip"
	"testing"
)

// The kinds in the words of the table.
const (
	no, ours, world = never, private, public
)

func TestAddressesAreWhatTheRegistriesSay(t *testing.T) {
	for _, c := range []struct {
		addr string
		want kind
		why  string
	}{
		{"1.1.1.1", world, "a resolver"}, {"8.8.8.8", world, "a resolver"}, {"93.184.215.14", world, "a server"},
		{"1.0.0.0", world, "just after 0/8"}, {"9.255.255.255", world, "just before 10/8"}, {"11.0.0.0", world, "just after 10/8"},
		{"223.255.255.255", world, "the last before multicast"},

		{"0.0.0.0", no, "unspecified; connects to this machine on Linux"}, {"0.0.0.1", no, "this network"}, {"0.255.255.255", no, "the end of 0/8"},
		{"10.0.0.0", ours, "RFC 1918"}, {"10.255.255.255", ours, "the end of 10/8"},
		{"172.15.255.255", world, "just before 172.16/12"}, {"172.16.0.0", ours, "RFC 1918"}, {"172.31.255.255", ours, "the end of it"}, {"172.32.0.0", world, "just after it"},
		{"192.167.255.255", world, "just before 192.168/16"}, {"192.168.0.1", ours, "RFC 1918"}, {"192.168.255.255", ours, "the end of it"}, {"192.169.0.0", world, "just after it"},
		{"100.63.255.255", world, "just before 100.64/10"}, {"100.64.0.0", ours, "shared space, tailnets"}, {"100.127.255.255", ours, "the end of it"}, {"100.128.0.0", world, "just after it"},
		{"100.100.100.200", no, "Alibaba's metadata"}, {"100.100.100.199", ours, "its neighbour"}, {"100.100.100.100", no, "Tailscale's own service"},
		{"127.0.0.1", ours, "loopback"}, {"127.0.0.0", ours, "the start of it"}, {"127.255.255.255", ours, "the end of it"}, {"127.1.2.3", ours, "inside of it"}, {"128.0.0.0", world, "just after it"}, {"126.255.255.255", world, "just before it"},
		{"169.253.255.255", world, "just before link-local"}, {"169.254.0.0", no, "link-local"}, {"169.254.169.254", no, "metadata of most clouds"}, {"169.254.170.2", no, "credentials of containers at AWS"},
		{"169.254.42.42", no, "Scaleway's metadata"}, {"169.254.255.255", no, "the end of link-local"}, {"169.255.0.0", world, "just after it"}, {"168.63.129.16", no, "Azure's wire server"}, {"168.63.129.15", world, "its neighbour"},
		{"192.0.0.0", no, "protocol assignments"}, {"192.0.0.8", no, "a dummy (RFC 7600)"}, {"192.0.0.9", no, "port control (RFC 7723)"}, {"192.0.0.170", no, "finds NAT64 (RFC 8880)"}, {"192.0.0.192", no, "Oracle's old metadata"}, {"192.0.1.0", world, "just after it"},
		{"192.0.2.0", no, "documentation"}, {"192.0.2.255", no, "documentation"}, {"192.0.3.0", world, "just after it"}, {"198.51.100.7", no, "documentation"}, {"203.0.113.7", no, "documentation"}, {"203.0.114.0", world, "just after it"},
		{"192.31.196.1", no, "AS112"}, {"192.52.193.1", no, "AMT"}, {"192.88.99.1", no, "a 6to4 relay"}, {"192.175.48.1", no, "AS112"},
		{"198.17.255.255", world, "just before benchmarks"}, {"198.18.0.0", no, "benchmarks"}, {"198.19.255.255", no, "benchmarks"}, {"198.20.0.0", world, "just after them"},
		{"224.0.0.1", no, "multicast: all hosts"}, {"224.0.0.251", no, "multicast: names on the link"}, {"239.255.255.250", no, "multicast: devices on the link"}, {"240.0.0.1", no, "reserved"}, {"255.255.255.254", no, "reserved"}, {"255.255.255.255", no, "broadcast"},

		{"2606:4700:4700::1111", world, "a resolver"}, {"2a00:1450:4001:81b::200e", world, "a server"}, {"2003::1", world, "just after 6to4"},
		{"::", no, "unspecified"}, {"::1", ours, "loopback"}, {"::2", no, "IPv4-compatible"}, {"::127.0.0.1", no, "IPv4-compatible loopback"}, {"::10.0.0.1", no, "IPv4-compatible private"},
		{"::ffff:127.0.0.1", no, "mapped loopback"}, {"::ffff:10.0.0.1", no, "mapped private"}, {"::ffff:8.8.8.8", no, "mapped public"}, {"::ffff:169.254.169.254", no, "mapped metadata"}, {"::ffff:0:127.0.0.1", no, "translated as of RFC 2765"}, {"::1:0:0", no, "nobody's"},
		{"64:ff9b::7f00:1", no, "NAT64 of loopback"}, {"64:ff9b::8.8.8.8", no, "NAT64 of a public one"}, {"64:ff9b::a9fe:a9fe", no, "NAT64 of metadata"}, {"64:ff9b:1::1", no, "NAT64 of a site"}, {"64:ff9b:1:ffff::", no, "the end of it"}, {"64:ff9b:2::", no, "nobody's"},
		{"100::1", no, "discard"}, {"100:0:0:1::1", no, "dummy"}, {"100:0:0:2::1", no, "nobody's"},
		{"2001::1", no, "Teredo"}, {"2001:0:7f00:1::", no, "Teredo with loopback"}, {"2001:1::1", no, "port control"}, {"2001:2::1", no, "benchmarks"}, {"2001:3::1", no, "AMT"}, {"2001:4:112::1", no, "AS112"}, {"2001:5::1", no, "protocol assignments"},
		{"2001:10::1", no, "ORCHID"}, {"2001:20::1", no, "ORCHIDv2"}, {"2001:30::1", no, "drones"}, {"2001:1ff:ffff::", no, "the end of 2001::/23"}, {"2001:200::1", world, "just after it"},
		{"2001:db8::1", no, "documentation"}, {"2001:db8:ffff::", no, "documentation"}, {"2001:db7::1", world, "just before it"}, {"2001:db9::1", world, "just after it"},
		{"2002::1", no, "6to4"}, {"2002:7f00:1::", no, "6to4 of loopback"}, {"2002:a9fe:a9fe::1", no, "6to4 of metadata"}, {"2620:4f:8000::1", no, "AS112"}, {"2620:4f:8001::1", world, "just after it"},
		{"3fff::1", no, "documentation"}, {"3fff:fff:ffff::", no, "the end of it"}, {"3fff:1000::", world, "just after it"}, {"5f00::1", no, "SRv6"}, {"4000::1", no, "nobody's"}, {"1fff::1", no, "nobody's"}, {"e000::1", no, "nobody's"},
		{"fbff::1", no, "nobody's, just before unique local"}, {"fc00::1", ours, "unique local"}, {"fd12:3456:789a::1", ours, "unique local"}, {"fdff:ffff::1", ours, "the end of it"}, {"fe00::1", no, "nobody's, just after it"},
		{"fd00:ec2::254", no, "AWS's metadata"}, {"fd00:ec2::23", no, "identities of AWS's containers"}, {"fd00:ec3::254", ours, "its neighbour"}, {"fd20:ce::254", no, "Google's metadata"}, {"fd00:c1::a9fe:a9fe", no, "Oracle's metadata"}, {"fd00:42::42", no, "Scaleway's metadata"},
		{"fd7a:115c:a1e0::53", no, "Tailscale's own service"}, {"fd7a:115c:a1e0::1", ours, "a machine of a tailnet"},
		{"fe80::1", no, "link-local"}, {"fe80::a9fe:a9fe", no, "metadata on the link"}, {"febf::1", no, "the end of link-local"}, {"fec0::1", no, "site-local"}, {"feff::1", no, "the end of it"}, {"ff02::1", no, "multicast"}, {"ff0e::1", no, "multicast"},
		{"2606:4700::5efe:7f00:1", no, "ISATAP of loopback"}, {"2606:4700::200:5efe:7f00:1", no, "ISATAP, globally unique"}, {"fd12::5efe:169.254.169.254", no, "ISATAP of metadata in a private network"},
		{"fe80::1%eth0", no, "a zone"}, {"::1%lo", no, "a zone"}, {"2606:4700::1%1", no, "a zone"},
	} {
		addr := netip.MustParseAddr(c.addr)
		got, name := classify(addr)
		if got != c.want {
			t.Errorf("%s (%s) is of kind %d, %s; want %d", c.addr, c.why, got, name, c.want)
		}
		// What the guard does with it, both ways.
		if ok := allowed(addr, false) == ""; ok != (c.want == world) {
			t.Errorf("%s (%s) without private: allowed %v", c.addr, c.why, ok)
		}
		if ok := allowed(addr, true) == ""; ok != (c.want == ours) {
			t.Errorf("%s (%s) with private: allowed %v", c.addr, c.why, ok)
		}
	}
	if k, _ := classify(netip.Addr{}); k != no {
		t.Error("no address is allowed")
	}
}
