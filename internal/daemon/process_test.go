package daemon_test

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"signalbox/internal/api"
	"signalbox/internal/clock"
	"signalbox/internal/coord"
	"signalbox/internal/daemon"
	"signalbox/internal/journal"
	"signalbox/internal/journal/ownerlock"
	"signalbox/internal/sse"
)

// until polls a condition of another process.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(60 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("never happened: %s", what)
		}
	}
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// try asks for the status and tells whether it came.
func (s *served) try() (api.Status, int) {
	s.t.Helper()
	res := s.do(http.MethodGet, "/api/status", "", nil)
	defer res.Body.Close()
	var out api.Data[api.Status]
	if res.StatusCode == http.StatusOK {
		if err := json.NewDecoder(res.Body).Decode(&out); err != nil {
			return out.Data, http.StatusServiceUnavailable // it was killed while it answered
		}
	}
	return out.Data, res.StatusCode
}

// stream is an event stream that is being read.
type stream struct {
	res    *http.Response
	reader *sse.Reader
}

func (s *served) events(lastID string) *stream {
	s.t.Helper()
	query := "?after=0"
	headers := map[string]string{}
	if lastID != "" {
		query, headers["Last-Event-ID"] = "", lastID
	}
	res := s.do(http.MethodGet, "/api/events"+query, "", headers)
	if res.StatusCode != http.StatusOK {
		s.t.Fatalf("events: status %d", res.StatusCode)
	}
	return &stream{res, sse.NewReader(res.Body, sse.Limits{Line: 1 << 20, Event: 1 << 20, Total: 1 << 30})}
}

// lastEvent gives the newest event of a kind.
func (s *served) lastEvent(kind coord.EventKind) coord.Event {
	s.t.Helper()
	head := s.status().Head
	st := s.events("")
	defer st.res.Body.Close()
	var last coord.Event
	for {
		ev, err := st.reader.Next()
		if err != nil {
			s.t.Fatal(err)
		}
		var e coord.Event
		if err := json.Unmarshal(ev.Data, &e); err != nil {
			s.t.Fatal(err)
		}
		if e.Kind == kind {
			last = e
		}
		if e.Seq == head {
			return last
		}
	}
}

func TestAKilledWorkerComesBackAndStreamsResume(t *testing.T) {
	s := serve(t)
	before := s.status()
	st := s.events("")
	var last coord.Event
	for last.Seq < before.Head {
		ev, err := st.reader.Next()
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(ev.Data, &last); err != nil {
			t.Fatal(err)
		}
	}
	id := st.reader.LastID()
	if err := syscall.Kill(before.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var err error
	for err == nil {
		_, err = st.reader.Next() // the stream is cut, not silent
	}
	st.res.Body.Close()
	var after api.Status
	until(t, "the worker is back", func() bool {
		var code int
		after, code = s.try()
		if code != http.StatusOK && code != http.StatusServiceUnavailable {
			t.Fatalf("status %d while the worker is away", code)
		}
		return code == http.StatusOK
	})
	if after.Generation != before.Generation+1 || after.PID == before.PID || after.Epoch != before.Epoch {
		t.Errorf("before %+v, after %+v", before, after)
	}
	st = s.events(id)
	defer st.res.Body.Close()
	ev, err := st.reader.Next()
	if err != nil {
		t.Fatal(err)
	}
	var next coord.Event
	if err := json.Unmarshal(ev.Data, &next); err != nil {
		t.Fatal(err)
	}
	if next.Seq != last.Seq+1 || next.Kind != coord.WorkerStarted {
		t.Errorf("the stream went on with %+v after %d", next, last.Seq)
	}
}

func TestTheDoorSaysWhyAWorkerDoesNotComeBackAndTriesOn(t *testing.T) {
	s := serve(t)
	db := filepath.Join(s.dir, "journal.db")
	pid := s.status().PID
	// The one that runs has its file open; the next one finds a directory.
	if err := errors.Join(os.Rename(db, db+".away"), os.Mkdir(db, 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var p api.Problem
	until(t, "the door says why", func() bool {
		res := s.do(http.MethodGet, "/api/status", "", nil)
		if res.Header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		decode(t, res, http.StatusServiceUnavailable, &p)
		return strings.Contains(p.Detail, "does not start")
	})
	if p.Code != coord.Unavailable || !strings.Contains(s.log.String(), "started again") {
		t.Errorf("problem %+v, log %s", p, s.log)
	}
	if err := errors.Join(os.Remove(db), os.Rename(db+".away", db)); err != nil {
		t.Fatal(err)
	}
	until(t, "the worker is back", func() bool {
		_, code := s.try()
		return code == http.StatusOK
	})
}

func TestShutdownEndsStreamsAndLeavesNoLog(t *testing.T) {
	s := serve(t)
	st := s.events("")
	defer st.res.Body.Close()
	if _, err := st.reader.Next(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(s.dir, "serve.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("serve.json: %v, %v", err, info)
	}
	pid := s.status().PID
	s.end(errors.New("the operator pressed Ctrl-C"))
	for err == nil {
		_, err = st.reader.Next()
	}
	if err := s.wait(); err != nil {
		t.Fatal(err)
	}
	if alive(pid) {
		t.Error("the worker outlives the front door")
	}
	s.checkClean()
}

// checkClean checks that an orderly end left nothing behind.
func (s *served) checkClean() {
	s.t.Helper()
	for _, name := range []string{"journal.db-wal", "journal.db-shm", "serve.json"} {
		if _, err := os.Stat(filepath.Join(s.dir, name)); err == nil {
			s.t.Errorf("%s is left behind", name)
		}
	}
}

func TestTheOperatorStopsSignalbox(t *testing.T) {
	for _, body := range []string{`{}`, `{"drain":true}`} {
		t.Run(body, func(t *testing.T) {
			s := serve(t)
			decode(t, s.do(http.MethodPost, "/api/stop", body, nil), http.StatusAccepted, nil)
			if err := s.wait(); err != nil {
				t.Fatal(err)
			}
			s.checkClean()
		})
	}
}

// run starts a job and waits until its agent has begun.
func (s *served) run(instruction string) {
	s.t.Helper()
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	decode(s.t, s.do(http.MethodPost, "/api/agents", `{"id":"a","route":"acp","executable":"`+self+`"}`, nil), http.StatusCreated, nil)
	decode(s.t, s.do(http.MethodPost, "/api/jobs", `{"tasks":[{"agent":"a","instruction":"`+instruction+`"}]}`, nil), http.StatusCreated, nil)
	var frozen api.Data[coord.Job]
	decode(s.t, s.do(http.MethodPost, "/api/jobs/1/freeze", "", nil), http.StatusOK, &frozen)
	decode(s.t, s.do(http.MethodPost, "/api/jobs/1/run", `{"digest":"`+frozen.Data.Frozen.Digest+`"}`, nil), http.StatusOK, nil)
	st := s.events("")
	defer st.res.Body.Close()
	for {
		ev, err := st.reader.Next()
		if err != nil {
			s.t.Fatal(err)
		}
		var e coord.Event
		if err := json.Unmarshal(ev.Data, &e); err != nil {
			s.t.Fatal(err)
		}
		if e.Kind == coord.AttemptText {
			return
		}
	}
}

func TestAStopEndsWhatRunsAndADrainWaitsForIt(t *testing.T) {
	for body, c := range map[string]struct {
		instruction string
		want        coord.JobState
	}{
		`{}`:             {"Work " + forLong, coord.JobCancelled},
		`{"drain":true}`: {"Work for a moment", coord.JobCompleted},
	} {
		t.Run(body, func(t *testing.T) {
			s := serve(t)
			s.run(c.instruction)
			decode(t, s.do(http.MethodPost, "/api/stop", body, nil), http.StatusAccepted, nil)
			if err := s.wait(); err != nil {
				t.Fatal(err)
			}
			j, err := journal.Open(t.Context(), journal.Options{Dir: s.dir, Clock: clock.System(), Redact: func(s string) string { return s }, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			defer j.Close()
			err = j.View(t.Context(), func(v *journal.View) error {
				job, err := v.JobHead(coord.JobRef{Number: 1})
				if job.State != c.want {
					t.Errorf("the job is %s, want %s", job.State, c.want)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTheWorkerEndsWithItsFrontDoor(t *testing.T) {
	s := &served{t: t, dir: t.TempDir(), log: &log{}, done: make(chan error, 1)}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "serve", s.dir)
	cmd.Stderr = s.log
	// Its stderr is held by the worker too; do not wait for that.
	cmd.WaitDelay = time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatalf("serve printed nothing: %v\n%s", lines.Err(), s.log)
	}
	s.link = lines.Text()
	s.place.URL, _, _ = strings.Cut(s.link, "/pair#")
	s.token = s.pairToken()
	pid := s.status().PID
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	until(t, "the worker ends", func() bool { return !alive(pid) })
	// What the killed door left does not keep a new one from starting.
	if _, err := daemon.ReadPlace(s.dir); err != nil {
		t.Errorf("serve.json of the killed door: %v", err)
	}
	transport.CloseIdleConnections()
	s.start()
	if g := s.status().Generation; g != 2 {
		t.Errorf("generation %d", g)
	}
}

func TestASecondFrontDoorIsRefusedAtOnce(t *testing.T) {
	s := serve(t)
	err := daemon.Serve(t.Context(), options(s.dir, s.log, nil))
	if coord.CodeOf(err) != coord.Conflict || !strings.Contains(err.Error(), s.place.URL) {
		t.Errorf("error %v", err)
	}
	s.status() // the first one is not disturbed
}

func TestServeWaitsForAnOwnerThatDrains(t *testing.T) {
	s := &served{t: t, dir: t.TempDir(), log: &log{}, done: make(chan error, 1)}
	if err := os.Chmod(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := ownerlock.Acquire(t.Context(), filepath.Join(s.dir, "owner.lock"), clock.System(), 0)
	if err != nil {
		t.Fatal(err)
	}
	released := make(chan error, 1)
	// Long enough that a serve which does not wait is refused before.
	time.AfterFunc(500*time.Millisecond, func() { released <- lock.Release() })
	s.start()
	if err := <-released; err != nil {
		t.Fatal(err)
	}
}

func TestAWorkerThatRefusesToStartEndsServeWithItsReason(t *testing.T) {
	newer := t.TempDir()
	db, err := sql.Open("sqlite", filepath.Join(newer, "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), `CREATE TABLE x (y); PRAGMA user_version = 999; PRAGMA application_id = 1397310808`); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		dir  string
		code []coord.Code
	}{
		"a journal that is not ours or newer": {newer, []coord.Code{coord.Unsupported, coord.Invalid}},
		"a data directory that is a file":     {file, []coord.Code{coord.Unavailable}},
	} {
		t.Run(name, func(t *testing.T) {
			log := &log{}
			ctx, cancel := context.WithTimeoutCause(t.Context(), 30*time.Second, errors.New("serve did not give up"))
			defer cancel()
			err := daemon.Serve(ctx, options(c.dir, log, nil))
			if err == nil {
				t.Fatalf("serve ended well\n%s", log)
			}
			known := false
			for _, code := range c.code {
				known = known || coord.CodeOf(err) == code
			}
			if !known {
				t.Errorf("error %q (%s), log:\n%s", err, coord.CodeOf(err), log)
			}
		})
	}
}

func TestNoWorkerInheritsWhatBelongsToSignalbox(t *testing.T) {
	t.Setenv("SIGNALBOX_TOKEN", "sbx_secret")
	s := serve(t)
	if strings.Contains(s.log.String(), "inherited") {
		t.Errorf("log: %s", s.log)
	}
}

func TestOnlyLoopbackIsListenedOn(t *testing.T) {
	for _, listen := range []string{"0.0.0.0:0", ":0", "[::]:0", "example.org:80", "65536", "-1", "http", "127.0.0.1:", "007"} {
		o := options(t.TempDir(), &log{}, nil)
		o.Listen = listen
		// Should it be accepted after all, the context ends it at once.
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("over"))
		if err := daemon.Serve(ctx, o); coord.CodeOf(err) != coord.Invalid {
			t.Errorf("listen %q: %v", listen, err)
		}
	}
}

func TestAWorkerStartedByHandSaysHowToStart(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "worker", t.TempDir())
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "signalbox serve") {
		t.Errorf("%v: %s", err, out)
	}
}
