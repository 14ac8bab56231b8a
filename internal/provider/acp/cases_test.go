package acp_test

import (
	"fmt"
	"slices"
	"testing"
)

// fieldCase is a failure that somebody met in the field with an ACP client or
// agent, by its number in the project's list of 48, as one test of the client.
// The agent's half of a case is tested in package modelagent.
type fieldCase struct {
	n    int
	name string
	run  func(*testing.T)
}

// fieldCases is filled by the files named cases_*_test.go.
var fieldCases []fieldCase

// ofAgentsOnly are the cases in which a client has no part.
var ofAgentsOnly = map[int]string{
	45: "only who parses requests answers a parse error; what a client does with such an answer is part of case 3",
}

func TestFieldCases(t *testing.T) {
	slices.SortStableFunc(fieldCases, func(a, b fieldCase) int { return a.n - b.n })
	seen := map[int]bool{}
	for _, c := range fieldCases {
		seen[c.n] = true
		t.Run(fmt.Sprintf("case %d: %s", c.n, c.name), c.run)
	}
	for n := 1; n <= 48; n++ {
		if seen[n] == (ofAgentsOnly[n] != "") {
			t.Errorf("case %d is tested = %v, and left out because %q", n, seen[n], ofAgentsOnly[n])
		}
	}
}
