package sandbox_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"signalbox/internal/clock"
	"signalbox/internal/coord"
	"signalbox/internal/sandbox"
)

// permitted is what docs/security.md says of the tiers.
var permitted = map[coord.Tier][]string{
	coord.TierNamespaces: nil,
	coord.TierLandlock:   {"list_hidden", "stat_outside", "scratch_size"},
}

// unproven may lack a baseline on the machines of the tests: their kernel or
// container does not offer them, or the user may not.
var unproven = map[bool][]string{
	true: {"sysrq", "read_init_environment", "core_pattern", "foreign_architecture", "vsock", "userfaultfd", "perf_event", "xattr_outside", "open_by_handle", "io_uring"},
	false: {
		"sysrq", "read_init_environment", "core_pattern", "foreign_architecture", "vsock", "userfaultfd", "perf_event", "xattr_outside", "open_by_handle", "io_uring",
		"make_device", "terminal_injection", "packet_socket", "new_namespaces", "bpf", "mount", "chroot",
	},
}

// check holds a table of probes to what is promised of its tier.
func check(t *testing.T, tier coord.Tier, root bool, results []coord.ProbeResult) {
	t.Helper()
	var missing []string
	count := map[coord.ProbeVerdict]int{}
	for _, r := range results {
		count[r.Verdict]++
		accept := slices.Contains(permitted[tier], r.Name)
		switch r.Verdict {
		case coord.ProbeDenied, coord.ProbeWorks:
			if accept {
				t.Errorf("%s: %s is documented as permitted, and is %s", r.Name, r.Attempts, r.Verdict)
			}
		case coord.ProbePermitted:
			if !accept || !r.Accepted {
				t.Errorf("%s: the sandbox permits to %s", r.Name, r.Attempts)
			}
		case coord.ProbeNotProven:
			missing = append(missing, r.Name)
			if !slices.Contains(unproven[root], r.Name) {
				t.Errorf("%s: no baseline to %s (%s)", r.Name, r.Attempts, r.Outside)
			}
			if r.Inside == "ok" {
				t.Errorf("%s: what fails outside works inside", r.Name)
			}
		default:
			t.Errorf("%s: %s (outside %s, inside %s)", r.Name, r.Verdict, r.Outside, r.Inside)
		}
	}
	t.Logf("%d probes: %v; not proven: %v", len(results), count, missing)
	if count[coord.ProbeDenied] < 60 || count[coord.ProbeWorks] != 10 {
		t.Errorf("too little was proven: %v", count)
	}
}

func TestEveryProbeIsDeniedAndWhatMustWorkWorks(t *testing.T) {
	box := newBox(t)
	eachTier(t, func(t *testing.T, tier coord.Tier) {
		results, err := box.Prove(t.Context(), tier)
		if err != nil {
			t.Fatal(err)
		}
		check(t, tier, os.Geteuid() == 0, results)
	})
}

// nobody is the user that the same is run as, where the tests run as root.
const nobody = 65534

// proverEnv makes the test binary print the probes of a tier, as nobody.
const proverEnv = "SANDBOX_TEST_PROVER"

func prover(tier string) int {
	box, err := sandbox.New(os.Getenv(proverEnv+"_HELPER"), os.Getenv(proverEnv+"_DIR"))
	if err == nil {
		defer box.Close()
		var results []coord.ProbeResult
		ctx, cancel := timeout()
		defer cancel()
		if results, err = box.Prove(ctx, coord.Tier(tier)); err == nil {
			err = json.NewEncoder(os.Stdout).Encode(results)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func TestEveryProbeIsDeniedAlsoToAnUnprivilegedUser(t *testing.T) {
	if os.Geteuid() != 0 {
		// Then the other test did it.
		return
	}
	eachTier(t, func(t *testing.T, tier coord.Tier) {
		dir, err := os.MkdirTemp("", "sandbox-nobody-") //nolint:usetesting // the parents of a test's own directory are root's alone
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
		// go test builds into a directory that is root's alone.
		self := filepath.Join(dir, "prover")
		content, err := os.ReadFile("/proc/self/exe")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(self, content, 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), self)
		cmd.Dir = "/"
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir, proverEnv + "=" + string(tier), proverEnv + "_HELPER=" + helper, proverEnv + "_DIR=" + filepath.Join(dir, "box")}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		var problems strings.Builder
		cmd.Stderr = &problems
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %s", err, problems.String())
		}
		var results []coord.ProbeResult
		if err := json.Unmarshal(out, &results); err != nil {
			t.Fatal(err)
		}
		check(t, tier, false, results)
	})
}

func TestCertificateBindsTheProgramsAndHoldsNothingThatRan(t *testing.T) {
	box := newBox(t)
	now := clock.System()
	runner := filepath.Join(t.TempDir(), "runner")
	if err := os.WriteFile(runner, []byte("one"), 0o755); err != nil {
		t.Fatal(err)
	}
	programs := []coord.IdentityFile{{Role: coord.FileRunner, Path: runner}}
	cert, err := box.Certify(t.Context(), sandbox.CertifyOptions{Programs: programs, Clock: now})
	if err != nil {
		t.Fatal(err)
	}
	facts := func() coord.CertificateFacts {
		f, err := box.Facts(cert.Facts.Tier, programs)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	if why := cert.Void(facts(), now()); why != "" {
		t.Errorf("a fresh certificate is void: %s", why)
	}
	if cert.Facts.Tier != coord.TierNamespaces || len(cert.Facts.Files) != 2 || cert.Facts.LandlockABI < 3 {
		t.Errorf("facts %+v", cert.Facts)
	}
	for _, p := range cert.Probes {
		for _, word := range []string{p.Outside, p.Inside} {
			if strings.ContainsAny(word, "/ \n") || len(word) > 20 {
				t.Errorf("%s holds %q", p.Name, word)
			}
		}
	}
	if why := cert.Void(facts(), now().Add(coord.CertificateTTL+time.Minute)); !strings.Contains(why, "older") {
		t.Errorf("after two hours: %q", why)
	}
	if err := os.WriteFile(runner, []byte("two"), 0o755); err != nil {
		t.Fatal(err)
	}
	if why := cert.Void(facts(), now()); !strings.Contains(why, "runner") {
		t.Errorf("with another runner: %q", why)
	}
}
