package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"signalbox/internal/approval"
	"signalbox/internal/client"
	"signalbox/internal/coord"
	"signalbox/internal/daemon"
	"signalbox/internal/demo"
	"signalbox/internal/modelserver"
)

func (a *app) demoCommand() *cobra.Command {
	var keep, ask bool
	c := &cobra.Command{
		Use: "demo", Short: "See a job from draft to result, without an account or a network", Args: cobra.NoArgs,
		Long: `Demo makes a data directory of its own, starts Signalbox and a scripted model on
loopback, registers two agents, and takes a job of three tasks from the draft to
the result. It plays the operator and says when; --ask lets you decide.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return (&show{app: a, keep: keep, ask: ask}).run(cmd.Context())
		},
	}
	c.Flags().BoolVar(&keep, "keep", false, "leave it running afterwards, for the command line")
	c.Flags().BoolVar(&ask, "ask", false, "decide yourself, instead of watching")
	return c
}

// show is one run of the demo.
type show struct {
	*app
	keep, ask bool
	step      int
	client    *client.Client
	dir       string
}

// modelKey is the variable that holds the scripted model's token.
const modelKey = "DEMO_MODEL_API_KEY"

func (s *show) title(format string, args ...any) {
	s.step++
	st := s.styles(isTerminal(s.Err))
	s.say("\n%s %s", st.bold.Render(fmt.Sprintf("%d.", s.step)), st.bold.Render(fmt.Sprintf(format, args...)))
}

func (s *show) run(ctx context.Context) (err error) {
	if s.ask && !s.asks {
		return coord.Errorf(coord.Invalid, "--ask needs a terminal")
	}
	s.title("A data directory")
	if s.dir, err = os.MkdirTemp("", "signalbox-demo-"); err != nil {
		return coord.Errorf(coord.Unavailable, "no directory could be made for the demo: %s", reason(err))
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }()
	// Agents need a path without symbolic links, which a temporary folder may have.
	if s.dir, err = filepath.EvalSymlinks(s.dir); err != nil {
		return err
	}
	s.say("   %s, removed at the end", s.dir)

	s.title("A model server on loopback (scripted: the same question gets the same answer)")
	model, err := s.model(ctx)
	if err != nil {
		return err
	}
	defer model.close()
	s.say("   %s", model.url)

	s.title("Signalbox: a front door and a worker behind it")
	serving, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ready, ended := make(chan daemon.Link, 1), make(chan error, 1)
	var place daemon.Place
	go func() {
		ended <- daemon.Serve(serving, daemon.ServeOptions{
			Dir: s.dir, Listen: "0", Worker: []string{"worker", "--data", s.dir}, Version: s.Version, Stderr: io.Discard,
			Logger: slog.New(slog.DiscardHandler), Ready: func(p daemon.Place, l daemon.Link) { place = p; ready <- l },
		})
	}()
	defer func() {
		stop(errDone)
		if serveErr := <-ended; err == nil && !errors.Is(serveErr, errDone) {
			err = serveErr
		}
	}()
	select {
	case link := <-ready:
		if err := s.login(ctx, place, link); err != nil {
			return err
		}
	case err := <-ended:
		ended <- err
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer s.client.Close()
	s.say("   ready at %s; this demo is its operator", place.URL)
	if err := s.play(ctx, model.url); err != nil {
		return err
	}
	if !s.keep {
		s.say("\nThat was all of it. signalbox demo --keep leaves it running, so that you can look around.")
		return nil
	}
	s.say("\nIt is running until you press Ctrl-C. In another terminal:\n\n  export SIGNALBOX_DATA=%s\n  signalbox inbox\n  signalbox run --agent %s \"Say something\"", s.dir, demo.Reader)
	<-ctx.Done()
	return nil
}

// login makes the demo the operator, and with --keep the command line, too.
func (s *show) login(ctx context.Context, place daemon.Place, link daemon.Link) error {
	u, err := url.Parse(link.URL)
	if err != nil {
		return err
	}
	paired, err := redeem(ctx, u, "demo")
	if err != nil {
		return err
	}
	if s.keep {
		if err := writeToken(filepath.Join(s.dir, tokenFile), paired.Token); err != nil {
			return err
		}
	}
	s.client, err = client.New(client.Options{URL: place.URL, Token: paired.Token, Terminal: s.asks})
	return err
}

// play takes the job from the draft to the result.
func (s *show) play(ctx context.Context, modelURL string) error {
	s.title("Two agents, registered and inspected")
	if err := s.register(ctx, modelURL); err != nil {
		return err
	}
	s.title("A plan: two tasks side by side, and one that needs both")
	j, err := s.client.Draft(ctx, demo.Plan())
	if err != nil {
		return err
	}
	if j, err = s.client.Freeze(ctx, itoa(j.Number)); err != nil {
		return err
	}
	s.review(s.Err, j)
	s.title("You review it; what runs is exactly what was shown")
	if s.ask {
		yes, err := s.app.ask("run it?")
		if err != nil || !yes {
			return err
		}
	} else {
		s.say("   (the demo says y)")
	}
	cursor, err := s.client.Now(ctx)
	if err != nil {
		return err
	}
	if j, err = s.client.Run(ctx, itoa(j.Number), j.Frozen.Digest); err != nil {
		return err
	}
	s.title("It runs; what the agents write is shown once it is on the disk")
	watched := *s.app
	watched.screen = &screen{in: s.in, out: s.err, err: s.err, tty: s.tty, asks: s.ask, width: s.width}
	watched.Out = s.Err
	if !s.ask {
		stop := s.decide(ctx)
		defer stop()
	}
	if err := watched.follow(ctx, s.client, j, cursor, true); err != nil {
		return err
	}
	s.title("The result: every statement has an author, and is a claim, not a proof")
	r, err := s.client.Result(ctx, itoa(j.Number))
	if err != nil {
		return err
	}
	if err := s.app.show(r, func(w io.Writer) { s.result(w, r) }); err != nil {
		return err
	}
	s.title("Look further")
	s.say(`   signalbox job show %d           the plan as approved, and by whom
   signalbox request list --all   what was asked, what was decided, whether it arrived
   signalbox attempt show %d/signals
   signalbox job export %d         all evidence in one archive; signalbox verify checks it`, j.Number, j.Number, j.Number)
	return nil
}

// register makes the two agents known.
func (s *show) register(ctx context.Context, modelURL string) error {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return err
	}
	for _, g := range []struct {
		id  coord.AgentID
		cfg coord.AgentConfig
	}{
		{demo.Reader, coord.AgentConfig{Name: "A model API", Route: coord.RouteACP, Executable: self,
			Args:       []string{"model-agent", "--api", "responses", "--base-url", modelURL, "--model", modelserver.Model},
			EnvFromEnv: map[string]string{"MODEL_API_KEY": modelKey}}},
		{demo.Checker, coord.AgentConfig{Name: "An agent that asks", Route: coord.RouteACP, Executable: self, Args: []string{"demo-agent"}}},
	} {
		if _, err := s.client.AddAgent(ctx, string(g.id), g.cfg); err != nil {
			return err
		}
		found, err := s.client.InspectAgent(ctx, string(g.id))
		if err != nil {
			return err
		}
		s.agent(s.Err, found)
	}
	return nil
}

// decide plays the operator: it looks for what waits, and approves it as it was
// shown. The function ends it.
func (s *show) decide(ctx context.Context) func() {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		cursor := "0"
		err := s.client.Follow(ctx, client.Filter{After: cursor, Kinds: []coord.EventKind{coord.RequestChanged}}, func(e coord.Event) error {
			r, err := s.client.Request(ctx, string(e.Request))
			if err != nil || r.Decision != coord.DecisionOpen {
				return err
			}
			// A person would read first.
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(700 * time.Millisecond):
			}
			s.say("   (the demo, as the operator, allows r%d once)", r.Number)
			_, err = s.client.Decide(ctx, string(r.ID), approval.Decision{Decision: coord.DecisionApprove, Digest: r.Digest, Reason: "the demo plays the operator"})
			return err
		})
		if err != nil && !errors.Is(err, errDone) {
			s.say("   the demo could not decide: %v", err)
		}
	}()
	return func() {
		cancel(errDone)
		<-done
	}
}

// modelProcess is the scripted model while it serves.
type modelProcess struct {
	url   string
	close func()
}

// model starts the scripted model and lets the worker's environment know its
// token.
func (s *show) model(ctx context.Context) (modelProcess, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return modelProcess{}, err
	}
	token := "demo-" + rand.Text()
	if err := os.Setenv(modelKey, token); err != nil {
		return modelProcess{}, errors.Join(err, listener.Close())
	}
	server := &http.Server{Handler: modelserver.New(demo.Model(token)), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener) // it ends by close
	}()
	return modelProcess{"http://" + listener.Addr().String() + "/v1", func() {
		_ = server.Close() // nobody is served any more
		<-served
	}}, nil
}
