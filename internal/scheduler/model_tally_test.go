package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"signalbox/internal/coord"
	"signalbox/internal/provider/providertest"
)

// What a step of the model test can be.
const (
	jobApproved      = "a job is approved"
	approvedBeside   = "a job is approved between the loop's two readings"
	timePasses       = "time passes"
	machineSleeps    = "the machine sleeps"
	machineReboots   = "the machine is reset"
	clockJumpsBack   = "the clock is set back"
	clockJumpsAhead  = "the clock is set ahead"
	workerCrashes    = "the worker is killed"
	workerStops      = "the worker stops and starts"
	attemptCancelled = "an attempt is cancelled"
	requestDecided   = "a request is decided: "
	unknownResolved  = "an unknown is resolved: "
	providerAsked    = "a provider is asked what became of it"
	admissionPauses  = "admission pauses"
	admissionOpens   = "admission opens"
	operatorRefused  = "the operator comes too late or too early"
)

// What can be seen to follow from steps.
const (
	agentIs        = "agent: "
	attemptIs      = "attempt: "
	stopIs         = "stop: "
	stopIsFor      = "stop for: "
	requestIs      = "request: "
	deliveryIs     = "answer: "
	effectIs       = "tests: "
	writeKept      = "a write that an agent was told of is kept"
	attemptFollows = "attempt: followed again after a restart"
)

// modelKinds are all kinds of steps and of what follows from them; none may be
// missing in a run.
func modelKinds() (steps, seen []string) {
	steps = []string{jobApproved, approvedBeside, timePasses, machineSleeps, machineReboots, clockJumpsBack, clockJumpsAhead, workerCrashes, workerStops,
		attemptCancelled, requestDecided + string(coord.DecisionApprove), requestDecided + string(coord.DecisionDeny),
		unknownResolved + string(coord.Adopted), unknownResolved + string(coord.NeverRan), unknownResolved + string(coord.Abandoned),
		providerAsked, admissionPauses, admissionOpens, operatorRefused}
	for _, s := range []providertest.Setup{providertest.SetupCrash, providertest.SetupSilent, providertest.SetupAuth} {
		seen = append(seen, agentIs+"setup "+string(s))
	}
	for _, h := range []coord.HandedOver{coord.HandedNothing, coord.HandedUnknown} {
		seen = append(seen, agentIs+"takes "+string(h))
	}
	for _, c := range []providertest.OnCancel{providertest.CancelIgnore, providertest.CancelCannot, providertest.CancelBreaks} {
		seen = append(seen, agentIs+"at a stop "+string(c))
	}
	for _, do := range []providertest.Do{providertest.Accept, providertest.Say, providertest.Think, providertest.Act, providertest.Spend,
		providertest.Ask, providertest.Call, providertest.Withdraw, providertest.Cut, providertest.Crash, providertest.End} {
		seen = append(seen, agentIs+"does "+string(do))
	}
	for _, s := range []coord.AttemptState{coord.AttemptNotSent, coord.AttemptCompleted, coord.AttemptFailed, coord.AttemptRejected,
		coord.AttemptCancelled, coord.AttemptUnknown} {
		seen = append(seen, attemptIs+string(s))
	}
	for _, s := range []coord.CancelState{coord.CancelRequested, coord.CancelConfirmed, coord.CancelUnsupported, coord.CancelOvertaken, coord.CancelUnknown} {
		seen = append(seen, stopIs+string(s))
	}
	for _, c := range []coord.CancelCause{coord.CauseOperator, coord.CauseDeadline, coord.CauseShutdown} {
		seen = append(seen, stopIsFor+string(c))
	}
	for _, s := range []coord.DecisionState{coord.DecisionOpen, coord.DecisionApproved, coord.DecisionDenied, coord.DecisionWithdrawn, coord.DecisionExpired} {
		seen = append(seen, requestIs+string(s))
	}
	for _, s := range []coord.DeliveryState{coord.DeliveryDelivered, coord.DeliveryUndeliverable} {
		seen = append(seen, deliveryIs+string(s))
	}
	for _, s := range []coord.EffectState{coord.EffectApplying, coord.EffectApplied, coord.EffectFailed, coord.EffectUnknown, coord.EffectVoid} {
		seen = append(seen, effectIs+string(s))
	}
	return steps, append(seen, attemptFollows, writeKept)
}

// tally counts what happened, in all worlds together.
type tally struct {
	mu    sync.Mutex
	taken int
	count map[string]int
}

func (y *tally) step(what string) {
	y.mu.Lock()
	y.taken++
	y.mu.Unlock()
	y.saw(what)
}

func (y *tally) saw(what string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.count == nil {
		y.count = map[string]int{}
	}
	y.count[what]++
}

// plays counts what an agent is going to do.
func (y *tally) plays(s providertest.Script) {
	y.saw(agentIs + "setup " + string(s.Setup))
	y.saw(agentIs + "takes " + string(s.Send))
	y.saw(agentIs + "at a stop " + string(s.Cancel))
	for _, step := range s.Steps {
		y.saw(agentIs + "does " + string(step.Do))
	}
}

func (y *tally) steps() int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.taken
}

// never gives the kinds that did not happen.
func (y *tally) never() (out []string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	steps, seen := modelKinds()
	for _, kind := range slices.Concat(steps, seen) {
		if y.count[kind] == 0 {
			out = append(out, kind)
		}
	}
	return out
}

func (y *tally) String() string {
	y.mu.Lock()
	defer y.mu.Unlock()
	var out strings.Builder
	steps, seen := modelKinds()
	for _, kind := range slices.Concat(steps, seen) {
		fmt.Fprintf(&out, "%8d %s\n", y.count[kind], kind)
	}
	return out.String()
}
