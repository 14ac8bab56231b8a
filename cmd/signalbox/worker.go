package main

import (
	"bytes"
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"signalbox/internal/api"
	"signalbox/internal/approval"
	"signalbox/internal/artifact"
	"signalbox/internal/certification"
	"signalbox/internal/coord"
	"signalbox/internal/credential/binding"
	"signalbox/internal/daemon"
	"signalbox/internal/directory"
	"signalbox/internal/journal"
	"signalbox/internal/netguard"
	"signalbox/internal/planning"
	"signalbox/internal/process"
	"signalbox/internal/provider"
	"signalbox/internal/provider/a2a"
	"signalbox/internal/provider/acp"
	"signalbox/internal/provider/acp/catalog"
	"signalbox/internal/provider/codex"
	"signalbox/internal/provider/tincan"
	"signalbox/internal/retention"
	"signalbox/internal/sandbox"
	"signalbox/internal/scheduler"
	"signalbox/internal/synthesis"
	"signalbox/internal/testrun"
)

// build puts a worker together: the one place that knows every part.
func build(declared []directory.Declared, sources map[string]binding.Source) daemon.Build {
	return func(ctx context.Context, g daemon.Ground) (daemon.Parts, error) {
		var none daemon.Parts
		scratch := filepath.Join(g.Dir, "scratch")
		// What an earlier worker's attempts left there belongs to nobody.
		if err := os.RemoveAll(scratch); err != nil {
			return none, err
		}
		if err := os.MkdirAll(scratch, 0o700); err != nil {
			return none, err
		}
		store, err := artifact.New(filepath.Join(g.Dir, "artifacts"), g.Redactor.String)
		if err != nil {
			return none, err
		}
		contents, err := artifact.NewContents(filepath.Join(g.Dir, "contents"))
		if err != nil {
			return none, err
		}
		quota, err := space(ctx, g.Journal)
		if err != nil {
			return none, err
		}
		self, err := process.Executable()
		if err != nil {
			return none, err
		}
		// Agents start the program by its path: what /proc calls self is another
		// program there.
		program, err := os.Executable()
		if err != nil {
			return none, err
		}
		box, err := sandbox.New(self, filepath.Join(g.Dir, "confinement"))
		if err != nil {
			return none, err
		}
		if err := box.Sweep(); err != nil {
			return none, err
		}
		credentials := binding.New(sources, binding.Options{Secret: g.Redactor.Add})
		starter := process.New(self, g.Host, scheduler.Ledger{Journal: g.Journal})
		spare := process.NewSpare(starter)
		route := acp.New(spare, acp.Options{
			Logger: g.Logger, Secret: g.Redactor.Add, Version: version(), Program: program, Sockets: filepath.Join(scratch, "sockets"),
			Scratch: scratch, Lab: box, Model: loopback,
		})
		guard := netguard.New(netguard.Options{Credentials: credentials})
		adapters := map[coord.Route]provider.Adapter{
			coord.RouteACP:    route,
			coord.RouteCodex:  codex.New(spare, codex.Options{Scratch: scratch, Logger: g.Logger, Secret: g.Redactor.Add, Version: version(), Lab: box}),
			coord.RouteA2A:    a2a.New(guard, a2a.Options{Logger: g.Logger}),
			coord.RouteTincan: tincan.New(spare, tincan.Options{Scratch: scratch, Logger: g.Logger}),
		}
		dir := directory.New(g.Journal, adapters, directory.Options{Host: g.Host, Scratch: scratch, Logger: g.Logger, Presets: known{}.Presets(), Credentials: credentials})
		if err := dir.Declare(ctx, declared); err != nil {
			return none, err
		}
		tester := testrun.New(box, nil, exec.LookPath)
		proof := certification.New(certification.Options{
			Journal: g.Journal, Box: box, Agents: dir, Adapters: adapters, Runners: tester, Scratch: scratch, Logger: g.Logger,
		})
		results := synthesis.New(g.Journal, store)
		loop := scheduler.New(scheduler.Options{
			Journal: g.Journal, Adapters: adapters, Store: store, Quota: quota,
			Children: starter, Redactor: g.Redactor, Host: g.Host, Scratch: scratch, Logger: g.Logger,
			Contents: contents, Certifier: proof, Tester: certification.Tests{Certification: proof, Tester: tester, Path: contents.Path},
		})
		return daemon.Parts{
			Loop: loop,
			Close: func() {
				if err := spare.Close(); err != nil {
					g.Logger.Warn("a process that waited for the next agent could not be ended; the next start sees to it", "err", err)
				}
				box.Close()
				guard.Close()
			},
			Keeper: retention.New(g.Journal, results, store, quota, contents, g.Logger),
			Stages: api.Stages{
				Directory:     dir,
				Presets:       known{},
				Planning:      planning.New(g.Journal, dir, planning.Options{DataDir: g.Dir, Certifier: proof}),
				Approval:      approval.New(g.Journal, contents, loop.AdmitFirst),
				Scheduler:     loop,
				Synthesis:     results,
				Certification: proof,
				Doctor:        synthesis.NewDoctor(g.Journal, store, credentials),
				Bytes:         store,
				Credentials:   credentials,
			},
		}, nil
	}
}

// space counts what the artifacts of earlier owners take.
func space(ctx context.Context, j *journal.Journal) (q *artifact.Quota, err error) {
	err = j.View(ctx, func(v *journal.View) error {
		total, open, err := v.ArtifactSpace()
		q = artifact.NewQuota(artifact.DefaultLimits(), total, open)
		return err
	})
	return q, err
}

// known are the routes' suggestions in the directory's words.
type known struct{}

// Presets lists the built-in ones.
func (known) Presets() []directory.Preset {
	return append(presets(catalog.Presets()), directory.Preset{
		Name: codex.Preset, Title: "Codex", Commands: []string{"codex"}, Note: codex.Note,
		Config: coord.AgentConfig{Route: coord.RouteCodex, Preset: codex.Preset},
	})
}

// Import reads a registry file.
func (known) Import(registry []byte) ([]directory.Preset, error) {
	found, skipped, err := catalog.Import(bytes.NewReader(registry))
	out := presets(found)
	for _, s := range skipped {
		out = append(out, directory.Preset{Name: s.Entry, Title: s.Entry, Note: "left out: " + s.Reason})
	}
	return out, err
}

// atHome gives folders below the home directory of this user.
func atHome(dirs []string) []string {
	home, err := os.UserHomeDir()
	if err == nil {
		home, err = filepath.EvalSymlinks(home)
	}
	if err != nil {
		return nil
	}
	var out []string
	for _, dir := range dirs {
		out = append(out, filepath.Join(home, dir))
	}
	return out
}

func presets(suggestions []catalog.Suggestion) []directory.Preset {
	var out []directory.Preset
	for _, s := range suggestions {
		p := directory.Preset{Name: s.ID, Title: s.Name, Note: strings.Join(append(slices.Clone(s.Notes), s.Login), " "), Config: coord.AgentConfig{
			Route: coord.RouteACP, Args: slices.Clone(s.Args), Env: maps.Clone(s.Env), RandomEnv: slices.Clone(s.RandomEnv), Mode: s.Mode, Preset: s.ID,
			State: atHome(s.State),
		}}
		if s.Program != "" && !s.Floating {
			p.Commands = []string{s.Program}
		}
		out = append(out, p)
	}
	return out
}
