package providertest_test

import (
	"fmt"
	"testing"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
	"signalbox/internal/provider/providertest"
)

func TestFakeKeepsThePromisesOfThePort(t *testing.T) {
	for _, route := range []coord.Route{coord.RouteACP, coord.RouteCodex, coord.RouteA2A, coord.RouteTincan} {
		t.Run(string(route), func(t *testing.T) {
			h := providertest.Harness{Tools: true, Questions: route == coord.RouteCodex}
			if h.NoCancel = route == coord.RouteTincan; h.NoCancel {
				h.Tools, h.Cannot = false, []providertest.Do{providertest.Ask, providertest.Await}
			}
			h.New = func(_ *testing.T, s providertest.Script) providertest.Subject {
				if h.NoCancel {
					s.Cancel = providertest.CancelCannot
				}
				f := providertest.NewFake(route, providertest.Always(s))
				f.Timing = provider.Timing{Setup: 100 * time.Millisecond}
				w := work("att_1")
				return providertest.Subject{
					Adapter: f, Work: w,
					Prompts: func() []string {
						var out []string
						for _, s := range f.Sent() {
							out = append(out, s.Prompt)
						}
						return out
					},
					Answers: func() []providertest.Answered { return f.Answered(w.Attempt) },
					Left: func() []string {
						if n := f.Open(); n > 0 {
							return []string{fmt.Sprintf("%d sessions", n)}
						}
						return nil
					},
				}
			}
			providertest.Run(t, h)
		})
	}
}
