package a2a

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/netguard"
	"signalbox/internal/provider"
	"signalbox/internal/provider/stdio"
)

// maxCard bounds a card. Those in the field have some KiB.
const maxCard = 1 << 20

// card is what of a card is read, of either version.
type card struct {
	raw  []byte
	hash string

	Name        string `json:"name"`
	Description string `json:"description"`
	Version     string `json:"version"`
	Skills      []struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"skills"`
	Capabilities struct {
		Streaming bool `json:"streaming"`
		Extension []struct {
			URI      string `json:"uri"`
			Required bool   `json:"required"`
		} `json:"extensions"`
	} `json:"capabilities"`
	InputModes []string `json:"defaultInputModes"`

	// 0.3: one address with its transport, and more of them.
	Protocol   string `json:"protocolVersion"`
	URL        string `json:"url"`
	Transport  string `json:"preferredTransport"`
	Additional []struct {
		URL       string `json:"url"`
		Transport string `json:"transport"`
	} `json:"additionalInterfaces"`
	Security []json.RawMessage `json:"security"`

	// 1.0: every interface with its binding and version.
	Interfaces []struct {
		URL     string `json:"url"`
		Binding string `json:"protocolBinding"`
		Version string `json:"protocolVersion"`
		Tenant  string `json:"tenant"`
	} `json:"supportedInterfaces"`
	Requirements []json.RawMessage `json:"securityRequirements"`

	Signatures []json.RawMessage `json:"signatures"`
}

// fetchCard fetches the card from the configured address as it stands there.
func (a *Adapter) fetchCard(ctx context.Context, c coord.A2AConfig) (*card, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, a.o.Timing.Setup, errSilent)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Card, nil)
	if err != nil {
		return nil, &provider.Unsent{Cause: provider.CauseConfig, Message: "The configured address of the card cannot be read; see 'agent edit'."}
	}
	req.Header.Set("Accept", "application/json")
	setVersion(req, c.Version)
	access, err := cardAccess(c)
	if err != nil {
		return nil, err
	}
	res, err := a.guard.Do(ctx, access, req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }() // it was read as far as wanted
	body, err := netguard.ReadAll(res.Body, maxCard)
	if coord.CodeOf(err) == coord.Limit {
		return nil, &faultError{provider.CauseFrame, fmt.Sprintf("the card is longer than %d bytes", maxCard)}
	}
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, &httpError{res.StatusCode, excerpt(body)}
	}
	return readCard(body)
}

func readCard(body []byte) (*card, error) {
	k := &card{raw: body}
	if json.Unmarshal(body, k) != nil {
		return nil, &faultError{provider.CauseProtocol, "what the card's address gives is no card of A2A"}
	}
	sum := sha256.Sum256(body)
	k.hash = hex.EncodeToString(sum[:])
	return k, nil
}

// cardAccess is how the card is fetched. The credential is bound to the origin
// of the work, and goes to no other.
func cardAccess(c coord.A2AConfig) (netguard.Access, error) {
	u, err := netguard.ParseURL(c.Card)
	if err != nil {
		return netguard.Access{}, &provider.Unsent{Cause: provider.CauseConfig, Message: "The address of the card cannot be used: " + told(err) + "."}
	}
	a := netguard.Access{Origin: netguard.OriginOf(u), Private: c.Private, CA: c.CA}
	if a.Origin == c.Origin {
		a.Credential = c.Credential
	}
	return a, nil
}

// identity is what the operator approves: the card, byte for byte, and the files
// that say whom to trust for the peer.
func (k *card) identity(c coord.A2AConfig) (coord.Identity, error) {
	id := coord.Identity{
		Files:   []coord.IdentityFile{{Role: "card", Path: c.Card, SHA256: k.hash, Size: int64(len(k.raw))}},
		Version: strings.TrimSpace(line(k.Name) + " " + line(k.Version)),
	}
	for _, trusted := range []struct{ role, path string }{{"certificates", c.CA}, {"keys", c.Keys}} {
		if trusted.path == "" {
			continue
		}
		f, err := stdio.HashFile(trusted.role, trusted.path)
		if err != nil {
			return id, err
		}
		id.Files = append(id.Files, f)
	}
	return id, nil
}

// line is a word of the peer's about itself in one line, so that it cannot look
// like a finding of ours under it.
func line(s string) string { return clip(strings.Join(strings.Fields(s), " "), coord.MaxTitle/2) }

// jsonRPC is the name of the binding.
const jsonRPC = "JSONRPC"

// choose gives the address and the tenant of the card's interface for JSON-RPC
// in exactly the registered version. An interface at another origin than the
// registered one is refused by name, and never rewritten: cards that name
// 0.0.0.0 or a host of their own network are common.
func (k *card) choose(c coord.A2AConfig) (address, tenant string, err error) {
	type candidate struct{ url, tenant string }
	var fit []candidate
	var offers []string
	add := func(binding, version, url, tenant string) {
		offers = append(offers, binding+" "+version)
		if strings.EqualFold(binding, jsonRPC) && sameVersion(version, c.Version) {
			fit = append(fit, candidate{url, tenant})
		}
	}
	for _, i := range k.Interfaces {
		add(i.Binding, i.Version, i.URL, i.Tenant)
	}
	if k.URL != "" {
		// The explicit registration counts more than the version that a 0.3 card
		// names: cards in the field have it wrong or leave it out.
		version := v03
		if major(k.Protocol) == "1" {
			version = v10
		}
		add(or(k.Transport, jsonRPC), version, k.URL, "")
		for _, i := range k.Additional {
			add(i.Transport, version, i.URL, "")
		}
	}
	if len(fit) == 0 {
		return "", "", &provider.Unsent{Cause: provider.CauseVersion, Message: clip("The peer's card offers no JSON-RPC in version "+c.Version+"; it offers "+quote(strings.Join(offers, ", "))+".", coord.MaxReason)}
	}
	var wrong []string
	for _, f := range fit[:min(len(fit), maxListed)] {
		u, err := netguard.ParseURL(f.url)
		switch {
		case err != nil:
			wrong = append(wrong, fmt.Sprintf("%s (%s)", quote(f.url), told(err)))
		case netguard.OriginOf(u) != c.Origin:
			wrong = append(wrong, quote(f.url))
		case len(f.tenant) > maxID:
			wrong = append(wrong, fmt.Sprintf("%s (its tenant is longer than %d bytes)", quote(f.url), maxID))
		default:
			return u.String(), f.tenant, nil
		}
	}
	return "", "", &provider.Unsent{Cause: provider.CauseConfig, Message: clip("The peer's card sends work to "+strings.Join(wrong, ", ")+
		", which is not at the registered origin "+c.Origin+"; mend the card, or register that origin if it is the right one.", coord.MaxReason)}
}

// sameVersion compares major and minor numbers: a patch changes no message.
func sameVersion(a, b string) bool { return minor(a) == minor(b) }

func minor(v string) string {
	parts := strings.SplitN(strings.TrimPrefix(v, "v"), ".", 3)
	if len(parts) < 2 {
		return v
	}
	return parts[0] + "." + parts[1]
}

func major(v string) string {
	m, _, _ := strings.Cut(strings.TrimPrefix(v, "v"), ".")
	return m
}

// wantsCredential reports whether the card says that nobody is served without
// one. An empty requirement among several means that none is needed.
func (k *card) wantsCredential() bool {
	all := append(append([]json.RawMessage(nil), k.Security...), k.Requirements...)
	for _, r := range all {
		var schemes struct {
			Schemes map[string]json.RawMessage `json:"schemes"`
		}
		var plain map[string]json.RawMessage
		if json.Unmarshal(r, &plain) != nil {
			continue
		}
		if _, wrapped := plain["schemes"]; wrapped && json.Unmarshal(r, &schemes) == nil {
			plain = schemes.Schemes
		}
		if len(plain) == 0 {
			return false
		}
	}
	return len(all) > 0
}

// probe asks the interface for a task that cannot exist. The peer's own answer
// proves that it is there, speaks the registered version and takes the
// credential; nothing of that bears work.
func (e *endpoint) probe(ctx context.Context, wait time.Duration) error {
	_, err := e.get(ctx, wait, "signalbox-probe-"+probeID(), 0)
	rpc, ok := errors.AsType[*rpcError](err)
	switch {
	case err == nil:
		return malformed("a task that does not exist")
	case !ok:
		return err
	case rpc.code == codeNoMethod || rpc.code == codeVersion:
		return &provider.Unsent{Cause: provider.CauseVersion, Message: clip("The peer does not speak the registered version "+e.version+": it answered "+rpc.Error()+".", coord.MaxReason)}
	case rpc.code == codeUnauthenticated || rpc.code == codeForbidden:
		return &provider.Unsent{Cause: provider.CauseAuth, Message: clip("The peer does not let us in: it answered "+rpc.Error()+".", coord.MaxReason)}
	}
	return nil
}
