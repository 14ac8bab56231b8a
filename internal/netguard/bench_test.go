package netguard

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/internal/coord"
)

// manyPeers is how many peers are polled at once.
const manyPeers = 1000

// serveMany is another process: it answers when all peers have asked.
func serveMany(certFile, keyFile string) error {
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return err
	}
	fmt.Println(port)
	var mu sync.Mutex
	asked, all := 0, make(chan struct{})
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		asked++
		if asked == manyPeers {
			close(all)
			asked, all = 0, make(chan struct{})
			mu.Unlock()
		} else {
			wait := all
			mu.Unlock()
			<-wait
		}
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":"1","result":{"id":"t","status":{"state":"TASK_STATE_WORKING"}}}`)
	})}
	return s.Serve(tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}))
}

// BenchmarkAThousandPeersPolledAtOnce gives what a request to each of them,
// over a connection with TLS of its own, takes of memory: what the whole process had at most.
func BenchmarkAThousandPeersPolledAtOnce(b *testing.B) {
	ca := newAuthority(b)
	certFile, keyFile := ca.files(b, "*.peer.test")
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	server := exec.CommandContext(b.Context(), self)
	server.Env = append(os.Environ(), "NETGUARD_SERVE="+certFile+","+keyFile)
	server.Stderr = os.Stderr
	out, err := server.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	}()
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	port = strings.TrimSpace(port)
	answers := map[string][][]string{}
	accesses := make([]Access, manyPeers)
	for i := range accesses {
		host := fmt.Sprintf("p%d.peer.test", i)
		answers[host] = [][]string{{"127.0.0.1"}}
		accesses[i] = Access{Origin: "https://" + host + ":" + port, Private: true, CA: ca.file}
	}
	g := New(Options{Resolver: &names{answers: answers}})
	defer g.Close()
	for b.Loop() {
		var all sync.WaitGroup
		for _, a := range accesses {
			all.Go(func() {
				req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, a.Origin+"/", strings.NewReader("{}"))
				if err != nil {
					b.Error(err)
					return
				}
				res, err := g.Do(b.Context(), a, req)
				if err != nil {
					b.Error(err)
					return
				}
				defer res.Body.Close()
				if _, err := ReadAll(res.Body, coord.MaxFrame); err != nil {
					b.Error(err)
				}
			})
		}
		all.Wait()
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip("this system does not say what a process took at most")
	}
	_, most, _ := strings.Cut(string(status), "VmHWM:")
	kib, err := strconv.Atoi(strings.Fields(most)[0])
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(kib)/1024, "MiB-at-most")
}
