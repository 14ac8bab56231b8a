package workspace

import (
	"fmt"

	"signalbox/internal/coord"
)

// PlanLanding gives the steps that land changes, in order: what is new comes
// first, then what is changed, and what goes goes last, so that an end in the
// middle leaves more and not less. The old name of a renamed file goes only
// when the new one is there. Temporary names derive from name, the id of what
// was approved: no two plans share one.
func PlanLanding(name string, changes []coord.FileChange) []coord.LandingStep {
	var create, replace, remove []coord.LandingStep
	for _, c := range changes {
		s := coord.LandingStep{Path: c.Path, Before: c.Before, After: c.After, BeforeMode: c.BeforeMode, Mode: c.Mode}
		switch c.Kind {
		case coord.FileNew:
			s.Kind = coord.StepCreate
			create = append(create, s)
		case coord.FileChanged:
			s.Kind = coord.StepReplace
			replace = append(replace, s)
		case coord.FileDeleted:
			s.Kind = coord.StepRemove
			remove = append(remove, s)
		case coord.FileRenamed:
			s.Kind, s.Before, s.BeforeMode = coord.StepCreate, "", 0
			create = append(create, s)
			remove = append(remove, coord.LandingStep{Kind: coord.StepRemove, Path: c.From, Before: c.Before, BeforeMode: c.BeforeMode, Needs: c.Path})
		}
	}
	steps := append(append(create, replace...), remove...)
	for i := range steps {
		steps[i].Temp = fmt.Sprintf(".signalbox-%s-%d", name, i+1)
	}
	return steps
}
