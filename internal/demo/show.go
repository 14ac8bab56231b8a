package demo

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
	"strconv"
	"time"

	"signalbox/internal/approval"
	"signalbox/internal/client"
	"signalbox/internal/coord"
	"signalbox/internal/credential"
	"signalbox/internal/daemon"
	"signalbox/internal/follow"
	"signalbox/internal/modelserver"
	"signalbox/internal/screen"
)

// Show is one run of the demo.
type Show struct {
	*screen.Screen
	// Version is that of this program.
	Version string
	// Keep leaves Signalbox running after the job, until the context ends.
	Keep bool
	// Deciding lets the person at the terminal decide.
	Deciding bool

	step   int
	client *client.Client
	dir    string
}

// modelKey is the variable that holds the scripted model's token.
const modelKey = "DEMO_MODEL_API_KEY"

func (s *Show) title(text string) {
	s.step++
	st := s.Styles(screen.IsTerminal(s.Beside()))
	s.Say("\n%s %s", st.Bold.Render(fmt.Sprintf("%d.", s.step)), st.Bold.Render(text))
}

// errDone ends serve when the show is over.
var errDone = errors.New("done")

// Run makes a data directory, starts Signalbox and the scripted model, registers
// the agents, takes the job to its result, and removes all of it again. It gives
// the state in which the job ended, whose result is shown whatever it is. The
// error is follow.ErrNeeded when the person did not let it run, or did not answer
// what was asked.
func (s *Show) Run(ctx context.Context) (state coord.JobState, err error) {
	if s.Deciding && !s.Asks {
		return "", coord.Errorf(coord.Invalid, "--ask needs a terminal")
	}
	s.title("A data directory")
	if s.dir, err = os.MkdirTemp("", "signalbox-demo-"); err != nil {
		return "", coord.Errorf(coord.Unavailable, "no directory could be made for the demo: %v", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }()
	// Agents need a path without symbolic links, which a temporary folder may have.
	if s.dir, err = filepath.EvalSymlinks(s.dir); err != nil {
		return "", err
	}
	s.Say("   %s, removed at the end", s.dir)

	s.title("A model server on loopback (scripted: the same question gets the same answer)")
	model, err := s.model(ctx)
	if err != nil {
		return "", err
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
			return "", err
		}
	case err := <-ended:
		ended <- err
		return "", err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	defer s.client.Close()
	s.Say("   ready at %s; this demo is its operator", place.URL)
	if state, err = s.play(ctx, model.url); err != nil {
		return "", err
	}
	s.title("Look further")
	if !s.Keep {
		s.Say("   With signalbox demo --keep it runs on, for the commands to look further:")
	} else {
		s.Say("   It runs until you press Ctrl-C. In another terminal:\n\n   export SIGNALBOX_DATA=%s%s", s.dir, alias())
	}
	s.Say(`
   signalbox job show 1               the plan as approved, and by whom
   signalbox request show r1          what was asked, decided, and delivered
   signalbox attempt show 1/signals   what is known of it, and how
   signalbox job export 1             all evidence; signalbox verify checks it
   signalbox run --agent %s "Say something"`, Reader)
	if s.Keep {
		<-ctx.Done()
	}
	return state, nil
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
func (s *Show) login(ctx context.Context, place daemon.Place, link daemon.Link) error {
	u, err := url.Parse(link.URL)
	if err != nil {
		return err
	}
	paired, err := credential.Redeem(ctx, u, "demo")
	if err != nil {
		return err
	}
	if s.Keep {
		if err := credential.KeepInFile(s.dir, paired.Token); err != nil {
			return err
		}
	}
	s.client, err = client.New(client.Options{URL: place.URL, Token: paired.Token, Terminal: s.Asks})
	return err
}

// play takes the job from the draft to the result.
func (s *Show) play(ctx context.Context, modelURL string) (coord.JobState, error) {
	s.title("Two agents, registered and inspected")
	if err := s.register(ctx, modelURL); err != nil {
		return "", err
	}
	s.title("A plan: two tasks side by side, and one that needs both")
	j, err := s.client.Draft(ctx, Plan())
	if err != nil {
		return "", err
	}
	ref := strconv.FormatInt(j.Number, 10)
	if j, err = s.client.Freeze(ctx, ref); err != nil {
		return "", err
	}
	s.Review(s.Beside(), j)
	s.title("You review it; what runs is exactly what was shown")
	if s.Deciding {
		yes, err := s.Ask(ctx, "run it?")
		if err != nil || !yes {
			return "", follow.Declined(ctx, err)
		}
	} else {
		s.Say("   (the demo says y)")
	}
	cursor, err := s.client.Now(ctx)
	if err != nil {
		return "", err
	}
	if j, err = s.client.Run(ctx, ref, j.Frozen.Digest); err != nil {
		return "", err
	}
	s.title("It runs; what the agents write is shown once it is on the disk")
	f := follow.New(s.Aside(), s.client, j, true)
	if !s.Deciding {
		f.Operator = s.decide(f)
	}
	state, err := f.Run(ctx, cursor)
	if err != nil {
		return "", err
	}
	s.title("The result: every statement has an author, and is a claim, not a proof")
	r, err := s.client.Result(ctx, ref)
	if err != nil {
		return "", err
	}
	return state, s.Show(r, func(w io.Writer) { s.Result(w, r) })
}

// register makes the two agents known.
func (s *Show) register(ctx context.Context, modelURL string) error {
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
		{Reader, coord.AgentConfig{Name: "A model API", Route: coord.RouteACP, Executable: self,
			Args:       []string{"model-agent", "--api", "responses", "--base-url", modelURL, "--model", modelserver.Model},
			EnvFromEnv: map[string]string{"MODEL_API_KEY": modelKey}}},
		{Checker, coord.AgentConfig{Name: "An agent that asks", Route: coord.RouteACP, Executable: self, Args: []string{"demo-agent"}}},
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
func (s *Show) decide(f *follow.Job) func(context.Context, coord.Request) error {
	return func(ctx context.Context, r coord.Request) error {
		// A person would read first.
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(700 * time.Millisecond):
		}
		s.Say("   (the demo, as the operator, allows it once)")
		return f.Decide(ctx, r, approval.Decision{Decision: coord.DecisionApprove, Digest: r.Digest, Reason: "the demo plays the operator"})
	}
}

// modelProcess is the scripted model while it serves.
type modelProcess struct {
	url   string
	close func()
}

// model starts the scripted model and lets the worker's environment know its
// token.
func (s *Show) model(ctx context.Context) (modelProcess, error) {
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
	server := &http.Server{Handler: modelserver.New(Model(token)), ReadHeaderTimeout: 10 * time.Second}
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
