// Command a2aclient measures Signalbox's own way to A2A peers, from the adapter
// down to the socket, as the two programs in e2e/peers/a2a that are named client
// measure that of the SDKs. It prints one line of JSON, and ends when its input
// does, so that its memory can be looked at.
//
//	a2aclient trips CARD N     send work N times, each until its receipt
//	a2aclient stream CARD      send work once, and read the answer to its end
//	a2aclient poll CARD N      follow a task at each of N peers at once
//
// The peers of poll are at names of their own, all on this machine: %d in CARD
// is the number of the peer. SIGNALBOX_BENCH_CA names the file of certificates.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/heap"
	"signalbox/internal/netguard"
	"signalbox/internal/provider"
	"signalbox/internal/provider/a2a"
)

// outcome is what is printed.
type outcome struct {
	Nanoseconds int64 `json:"ns"`
	// Bytes are those of the text that arrived.
	Bytes int `json:"bytes"`
}

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "a2aclient:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return errors.New("it takes trips CARD N, stream CARD or poll CARD N")
	}
	n := 1
	if len(args) > 2 {
		var err error
		if n, err = strconv.Atoi(args[2]); err != nil {
			return err
		}
	}
	heap.Pace() // as the worker does
	guard := netguard.New(netguard.Options{Resolver: here{}})
	defer guard.Close()
	c := &caller{card: args[1], adapter: a2a.New(guard, a2a.Options{Logger: slog.New(slog.DiscardHandler)})}
	do, ok := map[string]func(context.Context, int) (outcome, error){"trips": c.trips, "stream": c.stream, "poll": c.poll}[args[0]]
	if !ok {
		return fmt.Errorf("it does not know %s", args[0])
	}
	out, err := do(ctx, n)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// here resolves every name to this machine.
type here struct{}

func (here) LookupNetIP(_ context.Context, network, _ string) ([]netip.Addr, error) {
	if network == "ip4" {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, nil
	}
	return nil, nil
}

// caller calls a peer, or several at addresses that differ in their number.
type caller struct {
	card    string
	adapter *a2a.Adapter
}

// workFor is work for the peer whose card is at card.
func workFor(card string) (provider.Work, error) {
	u, err := url.Parse(card)
	if err != nil {
		return provider.Work{}, err
	}
	return provider.Work{Agent: "peer", Revision: 1, Prompt: "measure", Config: coord.AgentConfig{Route: coord.RouteA2A, A2A: &coord.A2AConfig{
		Card: card, Origin: netguard.OriginOf(u), Version: "1.0", Private: true, CA: os.Getenv("SIGNALBOX_BENCH_CA"),
	}}}, nil
}

// prepare does all that comes before the work.
func (c *caller) prepare(ctx context.Context) (provider.Session, error) {
	w, err := workFor(c.card)
	if err != nil {
		return nil, err
	}
	seen, err := c.adapter.Inspect(ctx, provider.Target{Agent: "peer", Revision: 1, Config: w.Config})
	if err == nil && seen.Problem != "" {
		err = errors.New(seen.Problem)
	}
	if err != nil {
		return nil, err
	}
	w.Identity = seen.Identity
	return c.adapter.Prepare(ctx, w)
}

// next gives the first event that is wanted, and counts text on the way.
func next(ctx context.Context, s provider.Session, text *int, want ...provider.EventKind) (provider.Event, error) {
	for {
		e, err := s.Next(ctx)
		if err != nil {
			return e, err
		}
		if e.Text != nil {
			*text += len(e.Text.Text)
		}
		if slices.Contains(want, e.Kind) {
			return e, nil
		}
		if e.Kind == provider.EventLost {
			return e, errors.New(e.Lost.Reason)
		}
	}
}

// trips counts the time from the send to the receipt.
func (c *caller) trips(ctx context.Context, n int) (outcome, error) {
	var out outcome
	for range n {
		s, err := c.prepare(ctx)
		if err != nil {
			return out, err
		}
		began := time.Now()
		if _, err := s.Send(ctx); err != nil {
			return out, err
		}
		if _, err := next(ctx, s, &out.Bytes, provider.EventReceipt); err != nil {
			return out, err
		}
		out.Nanoseconds += time.Since(began).Nanoseconds()
		if _, err := s.Close(ctx); err != nil {
			return out, err
		}
	}
	return out, nil
}

// stream counts the time from the send to the end of the answer.
func (c *caller) stream(ctx context.Context, _ int) (outcome, error) {
	var out outcome
	s, err := c.prepare(ctx)
	if err != nil {
		return out, err
	}
	began := time.Now()
	if _, err := s.Send(ctx); err != nil {
		return out, err
	}
	end, err := next(ctx, s, &out.Bytes, provider.EventEnd)
	if err != nil {
		return out, err
	}
	out.Nanoseconds = time.Since(began).Nanoseconds()
	if end.End.State != coord.AttemptCompleted {
		return out, fmt.Errorf("the work ended as %s: %s", end.End.State, end.End.Reason)
	}
	_, err = s.Close(ctx)
	return out, err
}

// poll follows tasks of an earlier process, one a peer, until all of them ended.
// What that process left is written here: making it would leave a connection to
// each peer.
func (c *caller) poll(ctx context.Context, n int) (outcome, error) {
	var out outcome
	began := time.Now()
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = c.follow(ctx, fmt.Sprintf(c.card, i)) })
	}
	all.Wait()
	out.Nanoseconds = time.Since(began).Nanoseconds()
	return out, errors.Join(errs...)
}

// follow follows one task at the peer whose card is at card.
func (c *caller) follow(ctx context.Context, card string) error {
	w, err := workFor(card)
	if err != nil {
		return err
	}
	handle, err := provider.EncodeHandle(1, map[string]string{"message_id": "m", "version": "1.0", "url": strings.TrimSuffix(card, "/card")})
	if err != nil {
		return err
	}
	s, err := c.adapter.Reattach(ctx, w, handle, &coord.Receipt{Kind: "task", Reference: "task"})
	if err != nil {
		return err
	}
	var text int
	_, err = next(ctx, s, &text, provider.EventEnd)
	_, closed := s.Close(ctx)
	return errors.Join(err, closed)
}
