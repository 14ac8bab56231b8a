package modelagent

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestEndpointAllowsHTTPSAndLoopbackOnly(t *testing.T) {
	for base, want := range map[string]string{
		"https://api.example.com/v1":     "https://api.example.com/v1/responses",
		"https://api.example.com/v1/":    "https://api.example.com/v1/responses",
		"https://api.example.com":        "https://api.example.com/responses",
		"HTTPS://api.example.com:8443/":  "https://api.example.com:8443/responses",
		"https://[2001:db8::1]/v1":       "https://[2001:db8::1]/v1/responses",
		"https://localhost./v1":          "",
		"https://h/a%2Fb":                "",
		"http://localhost:8080/v1":       "http://localhost:8080/v1/responses",
		"http://LocalHost/v1":            "http://localhost/v1/responses",
		"http://127.0.0.1:1/v1":          "http://127.0.0.1:1/v1/responses",
		"http://127.255.0.9:65535":       "http://127.255.0.9:65535/responses",
		"http://[::1]:80/v1":             "http://[::1]/v1/responses",
		"":                               "",
		"api.example.com":                "",
		"/v1":                            "",
		"https:":                         "",
		"https://":                       "",
		"https:///v1":                    "",
		"https:api.example.com":          "",
		"ftp://api.example.com":          "",
		"http://api.example.com":         "",
		"http://localhost.":              "",
		"http://127.1":                   "",
		"http://0.0.0.0":                 "",
		"http://[::ffff:127.0.0.1]":      "",
		"http://[::]":                    "",
		"http://2130706433":              "",
		"http://localhost.example.com":   "",
		"https://user:pass@h/v1":         "",
		"https://user@h/v1":              "",
		"https://@h/v1":                  "",
		"https://h/v1?x=1":               "",
		"https://h/v1?":                  "",
		"https://h/v1#x":                 "",
		"https://h/v1#":                  "",
		"https://h:0/v1":                 "",
		"https://h:65536/v1":             "",
		"https://h:/v1":                  "",
		"https://h:x/v1":                 "",
		"https://h:-1/v1":                "",
		"https://h /v1":                  "",
		"https://h\r\nX: y/v1":           "",
		`https://h\@evil.example.com/v1`: "",
		"https://h/%zz":                  "",
	} {
		got := ""
		if u, err := endpoint(base, "/responses"); err == nil {
			got = u.String()
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", base, got, want)
		}
	}
}

func TestDefaultsOfTheFlags(t *testing.T) {
	c, err := parse([]string{"--base-url", "https://h/v1", "--model", "m"})
	if err != nil {
		t.Fatal(err)
	}
	if c.api != apiResponses || c.keyEnv != "MODEL_API_KEY" || c.timeout != 120*time.Second ||
		c.maxPrompt != 262144 || c.maxResponse != 2097152 || c.maxOutput != 262144 {
		t.Errorf("got %+v", c)
	}
	c, err = parse([]string{"--api=chat-completions", "--base-url=https://h/v1", "--model", strings.Repeat("\u00e9", 256), "--api-key-env=K",
		"--timeout=0.25", "--max-prompt-bytes=1", "--max-response-bytes=16777216", "--max-output-bytes=16777216"})
	if err != nil {
		t.Fatal(err)
	}
	if c.endpoint.Path != "/v1/chat/completions" || c.timeout != 250*time.Millisecond || c.maxPrompt != 1 || c.maxResponse != 1<<24 {
		t.Errorf("got %+v", c)
	}
}

func TestFaultyArgumentsGiveOneFixedLineAndExitCode2(t *testing.T) {
	proper := []string{"--base-url", "https://h/v1", "--model", "m"}
	for _, extra := range [][]string{
		{"--model", ""}, {"--model", strings.Repeat("m", 257)}, {"--model", "\xff"},
		{"--base-url", ""}, {"--base-url", "http://" + secret + "@h"},
		{"--api", "Responses"}, {"--api", ""},
		{"--api-key-env", ""}, {"--api-key-env", "A=B"},
		{"--timeout", "0"}, {"--timeout", "-1"}, {"--timeout", "600.1"}, {"--timeout", "NaN"}, {"--timeout", "inf"}, {"--timeout", "1m"},
		{"--max-prompt-bytes", "0"}, {"--max-response-bytes", "16777217"}, {"--max-output-bytes", "-1"}, {"--max-output-bytes", "x"},
		{"--unknown"}, {"--api-key", secret}, {"positional"}, {"--"}, {"--timeout"},
	} {
		args := append(append([]string(nil), proper...), extra...)
		if len(extra) == 1 && extra[0] == "--" {
			args = append(args, secret)
		}
		var out, errs bytes.Buffer
		if code := Main(t.Context(), args, strings.NewReader(""), &out, &errs, nil); code != 2 {
			t.Errorf("%q: exit %d", extra, code)
		}
		if out.Len() != 0 || errs.String() != "signalbox model-agent: bad arguments; see signalbox model-agent --help\n" {
			t.Errorf("%q: stdout %q, stderr %q", extra, &out, &errs)
		}
	}
}

func TestHelpNamesEveryFlag(t *testing.T) {
	var out, errs bytes.Buffer
	if code := Main(t.Context(), []string{"--help"}, strings.NewReader(""), &out, &errs, nil); code != 0 || errs.Len() != 0 {
		t.Errorf("exit %d, stderr %q", code, &errs)
	}
	for _, flag := range []string{"--api ", "--base-url", "--model", "--api-key-env", "--timeout", "--max-prompt-bytes", "--max-response-bytes", "--max-output-bytes"} {
		if !strings.Contains(out.String(), flag) {
			t.Errorf("the help does not name %s", flag)
		}
	}
}

func TestPlainHTTPReachesThisMachineOnly(t *testing.T) {
	control := transport(true)
	if _, err := control.DialContext(t.Context(), "tcp", "192.0.2.1:80"); err == nil || !strings.Contains(err.Error(), "loopback") {
		t.Errorf("got %v, want a refusal", err)
	}
}
