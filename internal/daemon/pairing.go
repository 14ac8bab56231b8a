package daemon

import (
	"crypto/subtle"
	"sync"
	"time"

	"signalbox/internal/api"
	"signalbox/internal/coord"
)

// Pairing tries are bounded: maxTries in tryWindow. A code has 256 bits and
// cannot be guessed; the bound keeps a page that tries from filling the log.
const (
	maxTries  = 10
	tryWindow = time.Minute
)

// pairing holds the one code that is good at a time.
type pairing struct {
	mu      sync.Mutex
	hash    string // of the code; "" when there is none
	expires time.Time
	tries   int
	window  time.Time // when tries began to count
}

// renew makes a code and forgets the one before.
func (p *pairing) renew() string {
	code := api.NewSecret()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hash, p.expires = api.HashOf(code), time.Now().Add(coord.PairingTTL)
	return code
}

// redeem uses a code up. restore gives it back, for when nothing came of it.
func (p *pairing) redeem(code string) (restore func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.Sub(p.window) > tryWindow {
		p.window, p.tries = now, 0
	}
	hash := api.HashOf(code)
	if p.hash == "" || now.After(p.expires) || subtle.ConstantTimeCompare([]byte(hash), []byte(p.hash)) != 1 {
		// Only wrong codes are refused by the bound: whoever tries them must not
		// keep out the one who has the right one.
		if p.tries >= maxTries {
			return nil, coord.Errorf(coord.Limit, "too many pairing codes were tried: wait a minute")
		}
		p.tries++
		return nil, coord.Errorf(coord.Unauthenticated, "this pairing link is used up, too old or not one: signalbox serve prints a new one at each start")
	}
	expires := p.expires
	p.hash = ""
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.hash == "" {
			p.hash, p.expires = hash, expires
		}
	}, nil
}
