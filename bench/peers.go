package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"signalbox/e2e/peers"
)

const (
	peerRounds = 5
	peerTrips  = 300
	// peerEvent is the text of one event in bytes, as models write it; peerShort
	// and peerLong are how many there are, 20 and 300 MB of text.
	peerEvent = 1 << 10
	peerShort = 20_000
	peerLong  = 300_000
	// peersAtOnce are polled at once.
	peersAtOnce = 1_000
)

// measurePeers sends to a peer that answers at once, and reads an answer that
// comes as fast as it can be written, each with Signalbox's way to peers and
// with the clients of the two official SDKs, in turns. All ask the same server.
func measurePeers(ctx context.Context, b *bench) (_ []figure, err error) {
	clients, err := b.peerClients(ctx)
	if err != nil {
		return nil, err
	}
	server, err := servePeer(ctx, b.dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.close()) }()
	trips, streams := map[string][]time.Duration{}, map[string][]time.Duration{}
	var alone []time.Duration
	for round := range peerRounds + 1 {
		for _, c := range clients {
			trip, err := c.run(ctx, "trips", server.card("blocking"), peerTrips)
			if err != nil {
				return nil, err
			}
			stream, err := c.run(ctx, "stream", server.card("short"), 1)
			if err != nil {
				return nil, err
			}
			if want := peerShort * peerEvent; stream.Bytes != want {
				return nil, fmt.Errorf("%s got %d bytes of text of %d", c.name, stream.Bytes, want)
			}
			if round > 0 {
				trips[c.name] = append(trips[c.name], time.Duration(trip.Nanoseconds/peerTrips))
				streams[c.name] = append(streams[c.name], time.Duration(stream.Nanoseconds))
			}
		}
	}
	for range peerRounds {
		trip, err := clients[1].run(ctx, "alone", server.card("blocking"), peerTrips)
		if err != nil {
			return nil, err
		}
		alone = append(alone, time.Duration(trip.Nanoseconds/peerTrips))
	}
	long, err := clients[0].run(ctx, "stream", server.card("long"), 1)
	if err != nil {
		return nil, err
	}
	short, err := clients[0].run(ctx, "stream", server.card("short"), 1)
	if err != nil {
		return nil, err
	}
	many, err := clients[0].run(ctx, "poll", server.many(), peersAtOnce)
	if err != nil {
		return nil, err
	}
	own := clients[0].name
	rate := func(name string) float64 { return float64(peerShort*peerEvent) / 1e6 / median(streams[name]).Seconds() }
	trip := func(name string) float64 { return float64(median(trips[name]).Nanoseconds()) / 1e3 }
	var tripWords, rateWords []string
	fastest, most := 0.0, 0.0
	for _, c := range clients[1:] {
		tripWords = append(tripWords, fmt.Sprintf("%s: %.0f us", c.name, trip(c.name)))
		rateWords = append(rateWords, fmt.Sprintf("%s: %.0f MB/s", c.name, rate(c.name)))
		if t := trip(c.name); fastest == 0 || t < fastest {
			fastest = t
		}
		most = max(most, rate(c.name))
	}
	return []figure{
		atMost("A2A, a message to its receipt", trip(own), fastest, "us", strings.Join(tripWords, "; ")),
		told("the same of a2a-go, connecting each time", float64(median(alone).Nanoseconds())/1e3, "us", "as Signalbox does: one that is kept may be closed under the message, whose outcome is then unknown"),
		atLeast("A2A, ingest of a stream", rate(own), most, "MB/s", strings.Join(rateWords, "; ")+"; of text, in events of 1 KiB"),
		atMost("A2A, growth by a stream of 300 MB", long.peak-short.peak, 10, "MB", fmt.Sprintf("peak of the process %.1f MB, with one of 20 MB %.1f MB", long.peak, short.peak)),
		atMost("1,000 A2A peers polled at once", many.peak, 60, "MB", fmt.Sprintf("peak of the process, each peer over TLS of its own; all answered within %.0f ms", float64(many.Nanoseconds)/1e6)),
	}, nil
}

// peerClient is a program that bench/a2aclient describes.
type peerClient struct {
	name string
	argv []string
	ca   string
}

// peerClients gives Signalbox's own, then those of the SDKs.
func (b *bench) peerClients(ctx context.Context) ([]peerClient, error) {
	cache, err := peers.Install()
	if err != nil {
		return nil, err
	}
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, err
	}
	// The one of JavaScript runs where its SDK is installed.
	script, err := os.ReadFile(filepath.Join("e2e", "peers", "a2a", "js1", "client.mjs"))
	if err != nil {
		return nil, err
	}
	js := filepath.Join(cache, "a2a-js1", "client.mjs")
	if err := os.WriteFile(js, script, 0o600); err != nil {
		return nil, err
	}
	sdk := filepath.Join(b.dir, "a2ago")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", sdk, "./client")
	build.Dir = filepath.Join("e2e", "peers", "a2a", "go2")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the client of a2a-go: %w\n%s", err, out)
	}
	return []peerClient{
		{name: "Signalbox", argv: []string{filepath.Join(filepath.Dir(b.agent), "a2aclient")}, ca: filepath.Join(b.dir, "ca.pem")},
		{name: "a2a-go 2.4.0", argv: []string{sdk}},
		{name: "@a2a-js/sdk 1.3.0", argv: []string{node, js}},
	}, nil
}

// measured is what a client printed, and its peak of memory in MB.
type measured struct {
	Nanoseconds int64 `json:"ns"`
	Bytes       int   `json:"bytes"`
	peak        float64
}

func (c peerClient) run(ctx context.Context, what, card string, n int) (m measured, err error) {
	cmd := exec.CommandContext(ctx, c.argv[0], append(c.argv[1:], what, card, strconv.Itoa(n))...)
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), "SIGNALBOX_BENCH_CA="+c.ca)
	in, err := cmd.StdinPipe()
	if err != nil {
		return m, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return m, err
	}
	if err := cmd.Start(); err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, in.Close(), cmd.Wait()) }()
	if err := json.NewDecoder(out).Decode(&m); err != nil {
		return m, fmt.Errorf("%s %s: %w", c.name, what, err)
	}
	m.peak, err = memory(cmd.Process.Pid, "VmHWM")
	return m, err
}

// peer is a server of A2A 1.0 that takes no time to think, in the clear and over
// TLS. What its card's path says is how it answers.
type peer struct {
	clear, secured net.Listener
	server         *http.Server
	served         chan error
	// update is an event without its beginning, which names the request.
	update []byte
}

func servePeer(ctx context.Context, dir string) (*peer, error) {
	var listen net.ListenConfig
	clear, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	secured, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	cert, err := certify(filepath.Join(dir, "ca.pem"))
	if err != nil {
		return nil, err
	}
	p := &peer{clear: clear, secured: secured, served: make(chan error, 2)}
	text := strings.Repeat("All lines are clear. ", peerEvent)[:peerEvent]
	p.update = []byte(`,"result":{"artifactUpdate":{"taskId":"task","contextId":"context","append":true,"artifact":{"artifactId":"answer","parts":[{"text":"` + text + `"}]}}}` + "}\n\n")
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{kind}/card", p.tell)
	mux.HandleFunc("POST /{kind}", p.call)
	p.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute, TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}}
	go func() { p.served <- p.server.Serve(clear) }()
	go func() { p.served <- p.server.ServeTLS(secured, "", "") }()
	return p, nil
}

func (p *peer) close() error {
	err := p.server.Close()
	for range 2 {
		if served := <-p.served; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
	}
	return err
}

// certify makes a certificate for all names below peer.test and writes it to
// file.
func certify(file string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"*.peer.test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)
}

// many is the address of the cards of many peers.
func (p *peer) many() string {
	return fmt.Sprintf("https://n%%d.peer.test:%d/blocking/card", netip.MustParseAddrPort(p.secured.Addr().String()).Port())
}

func (p *peer) card(kind string) string {
	return "http://" + p.clear.Addr().String() + "/" + kind + "/card"
}

func (p *peer) tell(w http.ResponseWriter, r *http.Request) {
	kind, scheme := r.PathValue("kind"), "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{ // the client may be gone
		"name": "bench", "description": "answers at once", "version": "1",
		"supportedInterfaces": []any{map[string]string{"url": scheme + r.Host + "/" + kind, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}},
		"capabilities":        map[string]bool{"streaming": kind != "blocking"},
		"defaultInputModes":   []string{"text/plain"}, "defaultOutputModes": []string{"text/plain"},
		"skills": []any{map[string]any{"id": "s", "name": "s", "description": "s", "tags": []string{"t"}}},
	})
}

func (p *peer) call(w http.ResponseWriter, r *http.Request) {
	var call struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			ID string `json:"id"`
		} `json:"params"`
	}
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&call); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	answer := func(format string, args ...any) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,`+format+"}", append([]any{call.ID}, args...)...)
	}
	switch {
	case call.Method == "SendMessage":
		answer(`"result":{"task":{"id":"task","contextId":"context","status":{"state":"TASK_STATE_WORKING"}}}`)
	case call.Method == "SendStreamingMessage":
		p.stream(w, call.ID, map[string]int{"short": peerShort, "long": peerLong}[r.PathValue("kind")])
	case call.Method == "GetTask" && strings.HasPrefix(call.Params.ID, "task"):
		answer(`"result":{"id":%q,"contextId":"context","status":{"state":"TASK_STATE_COMPLETED"}}`, call.Params.ID)
	default:
		answer(`"error":{"code":-32001,"message":"there is no such task"}`)
	}
}

// stream writes many events at a time, so that the reader is what is measured.
func (p *peer) stream(w http.ResponseWriter, id json.RawMessage, events int) {
	const together = 50
	begin := append([]byte(`data: {"jsonrpc":"2.0","id":`), id...)
	w.Header().Set("Content-Type", "text/event-stream")
	event := func(result string) {
		_, _ = fmt.Fprintf(w, "%s,\"result\":%s}\n\n", begin, result) // a client that is gone is measured no more
	}
	event(`{"task":{"id":"task","contextId":"context","status":{"state":"TASK_STATE_WORKING"}}}`)
	some := bytes.Repeat(append(slices.Clip(begin), p.update...), together)
	for range events / together {
		if _, err := w.Write(some); err != nil {
			return
		}
	}
	event(`{"statusUpdate":{"taskId":"task","contextId":"context","status":{"state":"TASK_STATE_COMPLETED"}}}`)
}
