package tincan_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/provider/providertest"
	"signalbox/internal/provider/tincan/tincantest"
)

// statuses are the relay's words for ends.
var statuses = map[coord.AttemptState]string{coord.AttemptCompleted: "answered", coord.AttemptFailed: "failed", coord.AttemptRejected: "declined"}

// translate makes a peer's script one of the stand-in's.
func translate(t *testing.T, s providertest.Script) tincantest.Script {
	out := tincantest.Script{Statuses: []string{"queued", "delivered"}, Mute: true}
	switch s.Setup {
	case providertest.SetupCrash:
		out.List = tincantest.Killed
	case providertest.SetupSilent:
		out.List = tincantest.Hang
	}
	var reply strings.Builder
	for _, step := range s.Steps {
		for range step.After / (10 * time.Millisecond) {
			out.Statuses = append(out.Statuses, "delivered")
		}
		switch step.Do {
		case providertest.Accept, providertest.Crash:
		case providertest.Say:
			reply.WriteString(step.Text)
		case providertest.Flood:
			reply.WriteString(strings.Repeat(step.Text, step.Count))
		case providertest.End:
			out.Statuses = append(out.Statuses, statuses[step.State])
		case providertest.Malformed:
			out.Gets = append(out.Gets, tincantest.Garbage)
		case providertest.Foreign:
			out.Gets = append(out.Gets, tincantest.OtherID)
		case providertest.Strange:
			out.Gets = append(out.Gets, tincantest.Strange)
		case providertest.Oversize:
			out.Gets = append(out.Gets, tincantest.Flood)
		default:
			t.Fatalf("a Tincan peer cannot play %s", step.Do)
		}
	}
	out.Reply = reply.String()
	return out
}

func TestAdapterKeepsThePromisesOfThePort(t *testing.T) {
	for _, dialect := range []string{"json", "text"} {
		t.Run(dialect, func(t *testing.T) {
			cannot := []providertest.Do{
				providertest.Think, providertest.Act, providertest.Spend, providertest.Attach, providertest.Ask, providertest.Call, providertest.Await,
				providertest.Withdraw, providertest.EndAgain, providertest.Crash, providertest.Cut, providertest.Noise,
			}
			providertest.Run(t, providertest.Harness{
				Whole: true, NoCancel: true, Cannot: cannot, Unready: []providertest.Setup{providertest.SetupVersion},
				New: func(t *testing.T, s providertest.Script) providertest.Subject {
					timing := testTiming
					if s.Setup == providertest.SetupSilent {
						timing.Command = time.Second
					}
					script := translate(t, s)
					script.Old = dialect == "text"
					b := newTimedBench(t, dialect, script, timing)
					w := b.work("")
					if s.Setup == providertest.SetupAuth {
						if _, err := tincantest.Profile(b.dir, "", "http://relay.example"); err != nil {
							t.Fatal(err)
						}
					}
					return providertest.Subject{
						Adapter: b.adapter, Work: w, Left: b.left,
						Prompts: func() []string {
							var out []string
							for _, s := range b.submissions() {
								out = append(out, s.Body)
							}
							return slices.Clip(out)
						},
						Answers: func() []providertest.Answered { return nil },
					}
				},
			})
		})
	}
}
