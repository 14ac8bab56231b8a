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
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"signalbox/internal/approval"
	"signalbox/internal/client"
	"signalbox/internal/coord"
	"signalbox/internal/credential"
	"signalbox/internal/daemon"
	"signalbox/internal/demo"
	"signalbox/internal/modelserver"
	"signalbox/internal/screen"
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

func (s *show) title(text string) {
	s.step++
	st := s.Styles(screen.IsTerminal(s.Err))
	s.Say("\n%s %s", st.Bold.Render(fmt.Sprintf("%d.", s.step)), st.Bold.Render(text))
}

func (s *show) run(ctx context.Context) (err error) {
	if s.ask && !s.Asks {
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
	s.Say("   %s, removed at the end", s.dir)

	s.title("A model server on loopback (scripted: the same question gets the same answer)")
	model, err := s.model(ctx)
	if err != nil {
		return err
	}
	defer model.close()
	s.Say("   %s", model.url)

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
	s.Say("   ready at %s; this demo is its operator", place.URL)
	if err := s.play(ctx, model.url); err != nil {
		return err
	}
	s.title("Look further")
	if !s.keep {
		s.Say("   With signalbox demo --keep it runs on, for the commands to look further:")
	} else {
		s.Say("   It runs until you press Ctrl-C. In another terminal:\n\n   export SIGNALBOX_DATA=%s%s", s.dir, alias())
	}
	s.Say(`
   signalbox job show 1               the plan as approved, and by whom
   signalbox request show r1          what was asked, decided, and delivered
   signalbox attempt show 1/signals   what is known of it, and how
   signalbox job export 1             all evidence; signalbox verify checks it
   signalbox run --agent %s "Say something"`, demo.Reader)
	if s.keep {
		<-ctx.Done()
	}
	return nil
}

// alias tells the shell what signalbox is, where it is not on the PATH.
func alias() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	if found, err := exec.LookPath("signalbox"); err == nil && found == self {
		return ""
	}
	return "\n   alias signalbox=" + self
}

// login makes the demo the operator, and with --keep the command line, too.
func (s *show) login(ctx context.Context, place daemon.Place, link daemon.Link) error {
	u, err := url.Parse(link.URL)
	if err != nil {
		return err
	}
	paired, err := credential.Redeem(ctx, u, "demo")
	if err != nil {
		return err
	}
	if s.keep {
		if err := credential.KeepInFile(s.dir, paired.Token); err != nil {
			return err
		}
	}
	s.client, err = client.New(client.Options{URL: place.URL, Token: paired.Token, Terminal: s.Asks})
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
	s.Review(s.Err, j)
	s.title("You review it; what runs is exactly what was shown")
	if s.ask {
		yes, err := s.Ask(ctx, "run it?")
		if err != nil || !yes {
			return declined(err)
		}
	} else {
		s.Say("   (the demo says y)")
	}
	cursor, err := s.client.Now(ctx)
	if err != nil {
		return err
	}
	if j, err = s.client.Run(ctx, itoa(j.Number), j.Frozen.Digest); err != nil {
		return err
	}
	s.title("It runs; what the agents write is shown once it is on the disk")
	aside := *s.app
	aside.Screen = s.Aside()
	f := &following{app: &aside, client: s.client, job: j, through: true}
	if f.operator = f.ask; !s.ask {
		f.operator = s.decide(f)
	}
	if err := f.run(ctx, cursor); err != nil {
		return err
	}
	s.title("The result: every statement has an author, and is a claim, not a proof")
	r, err := s.client.Result(ctx, itoa(j.Number))
	if err != nil {
		return err
	}
	return s.Show(r, func(w io.Writer) { s.Result(w, r) })
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
		s.Say("   %-8s %s: usable for %s, program sha256 %s", g.id, g.cfg.Name, screen.Operations(found.Inspection.Operations), screen.Short(found.Inspection.Identity.Files[0].SHA256))
	}
	return nil
}

// decide plays the operator: it approves what is asked as it was shown.
func (s *show) decide(f *following) func(context.Context, coord.Request) error {
	return func(ctx context.Context, r coord.Request) error {
		// A person would read first.
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(700 * time.Millisecond):
		}
		s.Say("   (the demo, as the operator, allows it once)")
		return f.decide(ctx, r, approval.Decision{Decision: coord.DecisionApprove, Digest: r.Digest, Reason: "the demo plays the operator"})
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
	// The worker inherits it, as it would from an operator's shell.
	if err := os.Setenv(modelKey, token); err != nil { //nolint:forbidigo // there is no other way into its environment
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
