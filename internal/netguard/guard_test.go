package netguard

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"signalbox/internal/coord"
)

func TestMain(m *testing.M) {
	if files := os.Getenv("NETGUARD_SERVE"); files != "" {
		cert, key, _ := strings.Cut(files, ",")
		fmt.Fprintln(os.Stderr, serveMany(cert, key))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// names is a resolver with a list of answers for each name: each question of a
// family takes the next, and the last stays.
type names struct {
	mu      sync.Mutex
	answers map[string][][]string
	asked   map[string]int
}

func (n *names) LookupNetIP(_ context.Context, network, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	turns := n.answers[host]
	if len(turns) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	if n.asked == nil {
		n.asked = map[string]int{}
	}
	i := n.asked[network+host]
	n.asked[network+host]++
	var out []netip.Addr
	for _, s := range turns[min(i, len(turns)-1)] {
		addr := netip.MustParseAddr(s)
		if addr.Is4() == (network == "ip4") {
			out = append(out, addr)
		}
	}
	return out, nil
}

// authority signs certificates for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t testing.TB) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "tests"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return authority{cert, key, file}
}

// issue makes a certificate for a name that is valid for a while around now.
func (a authority) issue(t testing.TB, name string, until time.Time) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until}
	if ip := net.ParseIP(name); ip != nil {
		tmpl.IPAddresses = []net.IP{ip}
	} else {
		tmpl.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// files writes a certificate and its key.
func (a authority) files(t testing.TB, name string) (certFile, keyFile string) {
	t.Helper()
	c := a.issue(t, name, time.Now().Add(time.Hour))
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: c.Certificate[0]}, keyFile: {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// serve starts a real peer; with certificates it speaks TLS. It gives the port.
func serve(t *testing.T, h http.Handler, certs ...tls.Certificate) string {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // refused handshakes are what is tested
	if len(certs) > 0 {
		s.TLS = &tls.Config{Certificates: certs, MinVersion: tls.VersionTLS12}
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}

func guard(t *testing.T, o Options) *Guard {
	t.Helper()
	g := New(o)
	t.Cleanup(g.Close)
	return g
}

func send(t *testing.T, g *Guard, a Access, path string) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.Origin+path, strings.NewReader("work"))
	if err != nil {
		t.Fatal(err)
	}
	return g.Do(t.Context(), a, req)
}

// refused asserts that nothing was sent, and with which code.
func refused(t *testing.T, err error, code coord.Code, say string) {
	t.Helper()
	var u *Unsent
	if !errors.As(err, &u) || coord.CodeOf(err) != code || !strings.Contains(err.Error(), say) || u.Transient != (code == coord.Unavailable) {
		t.Errorf("got %#v (%v), want an Unsent %s that says %q", err, err, code, say)
	}
}

func TestARequestReachesItsPeerUnderTheNameThatTLSVerifies(t *testing.T) {
	ca := newAuthority(t)
	var seen atomic.Value
	port := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Store(r.Host + " " + r.Proto + " " + r.Header.Get("Accept-Encoding"))
		_, _ = io.Copy(w, r.Body)
	}), ca.issue(t, "peer.test", time.Now().Add(time.Hour)))
	g := guard(t, Options{Resolver: &names{answers: map[string][][]string{"peer.test": {{"127.0.0.1"}}}}})
	a := Access{Origin: "https://peer.test:" + port, Private: true, CA: ca.file}
	res, err := send(t, g, a, "/a2a")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, err := ReadAll(res.Body, 100); err != nil || string(b) != "work" {
		t.Errorf("the answer: %q, %v", b, err)
	}
	if got := seen.Load(); got != "peer.test:"+port+" HTTP/1.1 " {
		t.Errorf("the peer saw %q", got)
	}
	_, err = send(t, g, Access{Origin: a.Origin, Private: true}, "/")
	refused(t, err, coord.Forbidden, "nobody who is trusted")
	_, err = send(t, g, Access{Origin: a.Origin, CA: ca.file}, "/")
	refused(t, err, coord.Forbidden, "is loopback")
}
