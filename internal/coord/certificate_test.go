package coord_test

import (
	"strings"
	"testing"
	"time"

	"signalbox/internal/coord"
)

func TestCertificateIsVoidAfterAnyChange(t *testing.T) {
	issued := coord.Moment{Wall: time.Unix(1000, 0), BootID: "b", Boot: time.Hour}
	good := coord.Certificate{
		Facts: coord.CertificateFacts{
			Tier: coord.TierNamespaces, Kernel: "6.18", BootID: "b", LandlockABI: 7, UID: 1000,
			Files: []coord.IdentityFile{{Role: coord.FileHelper, Path: "/h", SHA256: "1"}, {Role: coord.FileRunner, Path: "/bun", SHA256: "2"}, {Role: coord.FileRunner, Path: "/node", SHA256: "3"}},
		},
		Issued: issued,
		Probes: []coord.ProbeResult{{Name: "a", Verdict: coord.ProbeDenied}, {Name: "b", Verdict: coord.ProbeNotProven}, {Name: "c", Verdict: coord.ProbePermitted, Accepted: true}, {Name: "d", Verdict: coord.ProbeWorks}},
	}
	type change struct {
		c   *coord.Certificate
		now *coord.CertificateFacts
		at  *coord.Moment
	}
	for _, c := range []struct {
		name   string
		change func(change)
		want   string
	}{
		{"nothing changed", func(change) {}, ""},
		{"another runner is not asked for", func(c change) { c.now.Files = c.now.Files[:2] }, ""},
		{"just before its end", func(c change) { *c.at = issued.Add(coord.CertificateTTL - 1) }, ""},
		{"two hours old", func(c change) { *c.at = issued.Add(coord.CertificateTTL) }, "older"},
		{"rebooted", func(c change) { c.now.BootID = "b2" }, "started again"},
		{"other kernel", func(c change) { c.now.Kernel = "6.19" }, "kernel"},
		{"other Landlock", func(c change) { c.now.LandlockABI = 6 }, "Landlock"},
		{"other tier", func(c change) { c.now.Tier = coord.TierLandlock }, "tier"},
		{"other user", func(c change) { c.now.UID = 0 }, "user"},
		{"helper updated", func(c change) { c.now.Files[0].SHA256 = "x" }, "helper /h"},
		{"runner updated", func(c change) { c.now.Files[1].SHA256 = "x" }, "runner /bun"},
		{"unknown agent", func(c change) {
			c.now.Files = append(c.now.Files, coord.IdentityFile{Role: coord.FileAgent, Path: "/codex", SHA256: "4"})
		}, "cover the agent"},
		{"helper not told", func(c change) { c.now.Files = c.now.Files[1:] }, "helper"},
		{"a probe got through", func(c change) { c.c.Probes[0].Verdict = coord.ProbePermitted }, "against a"},
		{"what must work is broken", func(c change) { c.c.Probes[3].Verdict = coord.ProbeBroken }, "against d"},
		{"unknown verdict", func(c change) { c.c.Probes[1].Verdict = "fine" }, "against b"},
		{"nothing proven", func(c change) { c.c.Probes = c.c.Probes[1:] }, "no probe"},
		{"empty", func(c change) { *c.c = coord.Certificate{} }, "no probe"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cert, now, at := good, good.Facts, issued.Add(time.Minute)
			cert.Probes = append([]coord.ProbeResult(nil), good.Probes...)
			now.Files = append([]coord.IdentityFile(nil), good.Facts.Files...)
			c.change(change{&cert, &now, &at})
			got := cert.Void(now, at)
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("Void = %q, want %q", got, c.want)
			}
		})
	}
}
