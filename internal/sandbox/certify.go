package sandbox

import (
	"context"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"signalbox/internal/clock"
	"signalbox/internal/coord"
)

// CertifyOptions are what a certificate is to be made for.
type CertifyOptions struct {
	// Tier is the one to certify; "" takes the strongest that works.
	Tier coord.Tier
	// Programs are the runners and the agent that the certificate is to cover.
	// Only Role and Path are looked at. The helper is added.
	Programs []coord.IdentityFile
	Clock    coord.Clock
}

// Certify makes the probes and binds what they found to this machine and these
// programs. No agent and no model takes part. A certificate that does not hold
// is returned all the same, for its table: Void tells. An error means that the
// probes could not be made. The caller gives it its ID.
func (b *Box) Certify(ctx context.Context, o CertifyOptions) (coord.Certificate, error) {
	tier := o.Tier
	if tier == "" {
		support, err := b.Probe(ctx)
		if err != nil {
			return coord.Certificate{}, err
		}
		tier = support.Tier
	}
	before, err := b.Facts(tier, o.Programs)
	if err != nil {
		return coord.Certificate{}, err
	}
	// The validity counts from the first probe, not from the last.
	c := coord.Certificate{Facts: before, Issued: o.Clock()}
	if c.Probes, err = b.Prove(ctx, tier); err != nil {
		return coord.Certificate{}, err
	}
	after, err := b.Facts(tier, o.Programs)
	if err != nil {
		return coord.Certificate{}, err
	}
	for i, f := range before.Files {
		if after.Files[i] != f {
			return coord.Certificate{}, coord.Errorf(coord.Stale, "The %s changed while the sandbox was certified; certify it again.", f.Role)
		}
	}
	return c, nil
}

// Facts are those of now, to be compared with a certificate's.
func (b *Box) Facts(tier coord.Tier, programs []coord.IdentityFile) (coord.CertificateFacts, error) {
	facts := coord.CertificateFacts{Tier: tier, UID: os.Geteuid(), LandlockABI: landlockABI()}
	var err error
	if facts.BootID, err = clock.BootID(); err != nil {
		return facts, err
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return facts, &coord.Error{Code: coord.Unavailable, Message: "The kernel does not tell its release.", Err: err}
	}
	facts.Kernel = unix.ByteSliceToString(name.Release[:]) + " " + unix.ByteSliceToString(name.Version[:])
	helper, err := b.helperPath()
	if err != nil {
		return facts, err
	}
	all := append([]coord.IdentityFile{{Role: coord.FileHelper, Path: helper}}, systemPrograms...)
	for _, f := range append(all, programs...) {
		if f.Path, err = filepath.EvalSymlinks(f.Path); err != nil {
			return facts, &coord.Error{Code: coord.NotFound, Message: "A program that the sandbox is to be certified for is not there; look at its path.", Err: err}
		}
		if f.SHA256, f.Size, err = b.Hash(f.Path); err != nil {
			return facts, err
		}
		facts.Files = append(facts.Files, f)
	}
	return facts, nil
}
