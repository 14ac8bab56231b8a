package coord

import (
	"fmt"
	"slices"
	"strings"
)

// Certificate says that probes found a sandbox of this machine to hold: which
// tier, with which programs, on which kernel. Tests and edits are offered only
// with a live one.
type Certificate struct {
	ID    CertificateID    `json:"id"`
	Facts CertificateFacts `json:"facts"`
	// Probes are in the order in which they were made.
	Probes []ProbeResult `json:"probes"`
	Issued Moment        `json:"issued"`
}

// CertificateFacts are what a certificate is bound to. Any change voids it.
type CertificateFacts struct {
	Tier Tier `json:"tier"`
	// Files are the programs that take part, by their roles: FileHelper builds
	// the sandbox, FileRunner runs the tests, FileAgent is the agent's program,
	// FileWrapper the system's own sandbox on macOS.
	Files  []IdentityFile `json:"files"`
	Kernel string         `json:"kernel"`
	BootID string         `json:"boot_id"`
	// LandlockABI is 0 where there is none.
	LandlockABI int `json:"landlock_abi"`
	UID         int `json:"uid"`
	// Agent and Revision are the configuration that was probed: another one of
	// the same program may do other things. None for the sandbox and its
	// runners.
	Agent    AgentID `json:"agent,omitempty"`
	Revision int     `json:"revision,omitempty"`
}

// The roles of the files of a certificate.
const (
	FileHelper  = "helper"
	FileRunner  = "runner"
	FileAgent   = "agent"
	FileWrapper = "wrapper"
)

// Tier is a way to confine a program.
type Tier string

// The tiers, strongest first on Linux.
const (
	// TierNamespaces is tier 1: namespaces, a root of its own, Landlock, seccomp.
	TierNamespaces Tier = "namespaces"
	// TierLandlock is tier 2: Landlock and seccomp.
	TierLandlock Tier = "landlock"
	// TierSeatbelt is the sandbox of macOS.
	TierSeatbelt Tier = "seatbelt"
)

// ProbeVerdict is what a probe found.
type ProbeVerdict string

// The verdicts.
const (
	// ProbeDenied: what works outside fails inside.
	ProbeDenied ProbeVerdict = "denied"
	// ProbePrivate: it works inside, on something that only the sandbox has.
	ProbePrivate ProbeVerdict = "private"
	// ProbePermitted: it works inside as outside.
	ProbePermitted ProbeVerdict = "permitted"
	// ProbeWorks and ProbeBroken are of the probes of what must work inside.
	ProbeWorks  ProbeVerdict = "works"
	ProbeBroken ProbeVerdict = "broken"
	// ProbeNotProven: it does not even work outside on this machine, so that its
	// failure inside proves nothing.
	ProbeNotProven ProbeVerdict = "not_proven"
)

// ProbeResult is one probe. It holds no output of anything that ran.
type ProbeResult struct {
	Name string `json:"name"`
	// Attempts says what was tried, for a person.
	Attempts string       `json:"attempts"`
	Verdict  ProbeVerdict `json:"verdict"`
	// Accepted marks a permitted probe that this tier is documented to permit.
	Accepted bool `json:"accepted,omitempty"`
	// Outside and Inside name what the attempt gave there: "ok", or the name of
	// the error such as EPERM.
	Outside string `json:"outside"`
	Inside  string `json:"inside"`
}

// Holds reports whether a result speaks for the sandbox. One that is not
// proven speaks neither for nor against it, and is listed.
func (p ProbeResult) Holds() bool {
	switch p.Verdict {
	case ProbeDenied, ProbePrivate, ProbeWorks, ProbeNotProven:
		return true
	case ProbePermitted:
		return p.Accepted
	case ProbeBroken:
	}
	return false
}

// Fails lists the probes that speak against the sandbox. A certificate with
// one, or in which nothing at all was denied, is never live.
func (c Certificate) Fails() []string {
	var names []string
	for _, p := range c.Probes {
		if !p.Holds() {
			names = append(names, p.Name)
		}
	}
	return names
}

// Void says why the certificate does not hold for what is there now; "" when
// it does. The agent's or a runner's program that now does not list is not
// looked at: a certificate for several runners serves each.
func (c Certificate) Void(now CertificateFacts, at Moment) string {
	denied := slices.ContainsFunc(c.Probes, func(p ProbeResult) bool { return p.Verdict == ProbeDenied })
	was := c.Facts
	switch fails := c.Fails(); {
	case len(fails) > 0:
		return "the sandbox did not hold against " + strings.Join(fails, ", ")
	case !denied:
		return "no probe proved anything"
	case at.Since(c.Issued) >= CertificateTTL:
		return fmt.Sprintf("it is older than %s", CertificateTTL)
	case was.BootID != now.BootID:
		return "the machine was started again"
	case was.Kernel != now.Kernel:
		return "the kernel is another one"
	case was.LandlockABI != now.LandlockABI:
		return "Landlock has another version"
	case was.Tier != now.Tier:
		return fmt.Sprintf("it is for the tier %s, not %s", was.Tier, now.Tier)
	case was.UID != now.UID:
		return "it was made for another user"
	}
	for _, f := range now.Files {
		at := slices.IndexFunc(was.Files, func(g IdentityFile) bool { return g.Role == f.Role && g.Path == f.Path })
		if at < 0 {
			return fmt.Sprintf("it does not cover the %s %s", f.Role, f.Path)
		}
		if was.Files[at].SHA256 != f.SHA256 {
			return fmt.Sprintf("the %s %s has other content", f.Role, f.Path)
		}
	}
	if !slices.ContainsFunc(now.Files, func(f IdentityFile) bool { return f.Role == FileHelper }) {
		return "nobody said which helper builds the sandbox now"
	}
	return ""
}
