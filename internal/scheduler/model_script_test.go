package scheduler

import (
	"fmt"
	"strconv"
	"time"

	"pgregory.net/rapid"

	"signalbox/internal/coord"
	"signalbox/internal/provider/providertest"
)

// scriptOf finds the script's number at the start of an instruction.
func scriptOf(prompt string) int {
	n, err := strconv.Atoi(prompt[len("do "):len("do x")])
	if err != nil {
		return 0
	}
	return n
}

// testFile is what agents test.
const testFile = "a_test.go"

func drawScript(t *rapid.T, route coord.Route) providertest.Script {
	// Most agents come as far as their work: what is rare here is common enough
	// in thousands of steps.
	delay := rapid.SampledFrom([]time.Duration{0, 0, 0, 0, time.Second, 20 * time.Second, 5 * time.Minute})
	s := providertest.Script{
		Setup:      rapid.SampledFrom([]providertest.Setup{"", "", "", "", "", "", "", "", "", providertest.SetupCrash, providertest.SetupSilent, providertest.SetupAuth}).Draw(t, "setup"),
		SetupDelay: delay.Draw(t, "setup delay"),
		Send:       rapid.SampledFrom([]coord.HandedOver{"", "", "", "", "", "", "", "", "", "", coord.HandedNothing, coord.HandedUnknown}).Draw(t, "send"),
		Cancel:     rapid.SampledFrom([]providertest.OnCancel{"", "", providertest.CancelIgnore, providertest.CancelCannot, providertest.CancelBreaks}).Draw(t, "on cancel"),
	}
	for i := range rapid.IntRange(0, 5).Draw(t, "steps") {
		name := fmt.Sprint("q", i)
		after := delay.Draw(t, "after")
		switch rapid.SampledFrom([]string{"say", "think", "act", "spend", "ask", "ask", "write", "test", "test", "test", "withdraw", "cut", "crash", "accept"}).Draw(t, "do") {
		case "say":
			s.Steps = append(s.Steps, providertest.Step{Do: providertest.Say, Text: "word", After: after})
		case "think":
			s.Steps = append(s.Steps, providertest.Step{Do: providertest.Think, Text: "hm", After: after})
		case "act":
			s.Steps = append(s.Steps, providertest.Step{Do: providertest.Act, Text: "tool", After: after})
		case "accept":
			s.Steps = append(s.Steps, providertest.Step{Do: providertest.Accept, After: after})
		case "spend":
			s.Steps = append(s.Steps, providertest.Step{Do: providertest.Spend, After: after, Usage: &coord.Usage{TotalTokens: 10, Source: "provider"}})
		case "ask":
			s.Steps = append(s.Steps, providertest.Step{Do: providertest.Ask, Name: name, Text: "may I", Options: providertest.YesNo(), After: after},
				providertest.Step{Do: providertest.Await, Name: name})
		case "write":
			name := fmt.Sprint("w", i)
			s.Steps = append(s.Steps, providertest.Step{Do: providertest.Call, Name: name, Text: "write", After: after,
				Arguments: fmt.Appendf(nil, `{"path":%q,"content":"written"}`, name)}, providertest.Step{Do: providertest.Await, Name: name})
		case "test":
			s.Steps = append(s.Steps, providertest.Step{Do: providertest.Call, Name: name, Text: "run_tests", After: after,
				Arguments: fmt.Appendf(nil, `{"files":[%q]}`, testFile)})
			if rapid.Bool().Draw(t, "waits") {
				s.Steps = append(s.Steps, providertest.Step{Do: providertest.Await, Name: name})
			}
		case "withdraw":
			s.Steps = append(s.Steps, providertest.Step{Do: providertest.Ask, Name: name, Text: "may I", Options: providertest.YesNo()},
				providertest.Step{Do: providertest.Withdraw, Name: name, After: after})
		case "cut":
			if route.Askable() {
				s.Steps = append(s.Steps, providertest.Step{Do: providertest.Cut, After: after})
			}
		case "crash":
			if rapid.IntRange(0, 3).Draw(t, "crashes") == 0 {
				s.Steps = append(s.Steps, providertest.Step{Do: providertest.Crash, After: after})
			}
		}
	}
	if rapid.IntRange(0, 4).Draw(t, "ends") > 0 {
		state := rapid.SampledFrom([]coord.AttemptState{coord.AttemptCompleted, coord.AttemptCompleted, coord.AttemptCompleted, coord.AttemptFailed, coord.AttemptRejected}).Draw(t, "end")
		s.Steps = append(s.Steps, providertest.Step{Do: providertest.Say, Text: "."}, providertest.Step{Do: providertest.End, State: state, After: delay.Draw(t, "after")})
	}
	return s
}
