package demo

import (
	"time"

	"signalbox/internal/coord"
	"signalbox/internal/modelserver"
)

// The two agents of the demo.
const (
	// Reader is a model API behind signalbox model-agent.
	Reader coord.AgentID = "reader"
	// Checker asks the operator before it acts.
	Checker coord.AgentID = "checker"
)

// Plan is two tasks side by side and one that needs both.
func Plan() coord.Plan {
	return coord.Plan{
		Title:    "Is the line clear?",
		Deadline: coord.Duration(10 * time.Minute),
		Tasks: []coord.PlanTask{
			{Key: "timetable", Agent: Reader, Instruction: "Read the timetable and say which train comes next."},
			{Key: "signals", Agent: Checker, Instruction: "Check the signals and say whether a section is occupied."},
			{Key: "verdict", Agent: Reader, Instruction: "Give the verdict: may the next train go?", Needs: []string{"timetable", "signals"}},
		},
	}
}

// Model is the script of the loopback model.
func Model(token string) modelserver.Options {
	return modelserver.Options{Token: token, Delay: 12 * time.Millisecond, Script: []modelserver.Reply{
		{Match: "Give the verdict", Answer: "The timetable names the 14:07 and the signals were looked at as far as the operator allowed. " +
			"By these two statements the next train may go; neither of them is proof, so keep the distant signal at caution."},
		{Match: "Read the timetable", Answer: "The next train is the 14:07 to the harbour. After it comes the 14:31 freight, which has no stop here."},
	}}
}
