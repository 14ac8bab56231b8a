package modelagent

import (
	"errors"
	"flag"
	"io"
	"net/netip"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"signalbox/internal/coord"
	"signalbox/internal/netguard"
)

// api names the protocol that the endpoint speaks.
type api string

const (
	apiResponses api = "responses"
	apiChat      api = "chat-completions"
)

// Defaults and ceilings of the flags. The ceilings keep a mistyped number from
// turning into a process without bounds.
const (
	defaultTimeout  = 120.0
	maxTimeout      = 600.0
	defaultPrompt   = 256 << 10
	defaultResponse = 2 << 20
	defaultOutput   = 256 << 10
	maxBytes        = 16 << 20
	maxModelName    = 256
)

// config is what the flags say, checked.
type config struct {
	api         api
	endpoint    *url.URL // where the one request goes
	model       string
	keyEnv      string
	timeout     time.Duration
	maxPrompt   int
	maxResponse int
	maxOutput   int
}

var errFlags = coord.Errorf(coord.Invalid, "bad arguments; see signalbox model-agent --help")

const usage = `signalbox model-agent: an ACP agent on stdio that asks a model API once

  --api responses|chat-completions  protocol of the API (default responses)
  --base-url URL                    API root: https, or http on loopback; required
  --model NAME                      model to ask, 1 to 256 characters; required
  --api-key-env NAME                variable that holds the key (default MODEL_API_KEY)
  --timeout SECONDS                 for the whole prompt, at most 600 (default 120)
  --max-prompt-bytes N              at most 16777216 (default 262144)
  --max-response-bytes N            at most 16777216 (default 2097152)
  --max-output-bytes N              at most 16777216 (default 262144)
`

// parse reads the flags. It gives flag.ErrHelp when help is asked for, and
// errFlags, which repeats nothing of the input, for every fault.
func parse(args []string) (config, error) {
	fs := flag.NewFlagSet("model-agent", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	var c config
	apiName := fs.String("api", string(apiResponses), "")
	base := fs.String("base-url", "", "")
	timeout := fs.Float64("timeout", defaultTimeout, "")
	fs.StringVar(&c.model, "model", "", "")
	fs.StringVar(&c.keyEnv, "api-key-env", "MODEL_API_KEY", "")
	fs.IntVar(&c.maxPrompt, "max-prompt-bytes", defaultPrompt, "")
	fs.IntVar(&c.maxResponse, "max-response-bytes", defaultResponse, "")
	fs.IntVar(&c.maxOutput, "max-output-bytes", defaultOutput, "")
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		return config{}, flag.ErrHelp
	} else if err != nil || fs.NArg() > 0 {
		return config{}, errFlags
	}
	c.api = api(*apiName)
	path, ok := map[api]string{apiResponses: "/responses", apiChat: "/chat/completions"}[c.api]
	if !ok {
		return config{}, errFlags
	}
	var err error
	if c.endpoint, err = endpoint(*base, path); err != nil {
		return config{}, err
	}
	if n := utf8.RuneCountInString(c.model); n < 1 || n > maxModelName || !utf8.ValidString(c.model) {
		return config{}, errFlags
	}
	if c.keyEnv == "" || strings.ContainsAny(c.keyEnv, "=\x00") {
		return config{}, errFlags
	}
	if !(*timeout > 0 && *timeout <= maxTimeout) { // also refuses NaN
		return config{}, errFlags
	}
	c.timeout = max(time.Duration(*timeout*float64(time.Second)), 1)
	for _, n := range []int{c.maxPrompt, c.maxResponse, c.maxOutput} {
		if n < 1 || n > maxBytes {
			return config{}, errFlags
		}
	}
	return c, nil
}

// endpoint checks an API root by the rules for addresses of peers, and appends
// path. Allowed are https to any host and http to localhost or a loopback
// address.
func endpoint(base, path string) (*url.URL, error) {
	u, err := netguard.ParseURL(strings.TrimRight(base, "/") + path)
	if err != nil || u.Scheme != "https" && !isLoopback(u.Hostname()) {
		return nil, errFlags
	}
	return u, nil
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && !addr.Is4In6() && addr.IsLoopback()
}
