package a2a

import (
	"testing"
	"time"

	"signalbox/internal/provider/providertest"
)

func TestConformance(t *testing.T) {
	for _, version := range []string{v03, v10} {
		t.Run(version, func(t *testing.T) {
			providertest.Run(t, providertest.Harness{
				Questions: true,
				// The protocol has no word for thinking, nor for what work costs.
				Cannot: []providertest.Do{providertest.Think, providertest.Spend},
				New: func(t *testing.T, s providertest.Script) providertest.Subject {
					p := newPlayer(t, version, s)
					timing := fast
					timing.Setup = 300 * time.Millisecond
					return providertest.Subject{Adapter: newAdapter(t, timing), Work: p.work(), Prompts: p.Prompts, Answers: p.Answers, Left: p.left}
				},
			})
		})
	}
}
