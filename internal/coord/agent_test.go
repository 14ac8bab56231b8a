package coord_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/coord"
)

func TestIdentityTellsWhatChanged(t *testing.T) {
	node := coord.IdentityFile{Role: "interpreter", Path: "/usr/bin/node", SHA256: "n1"}
	script := coord.IdentityFile{Role: "script", Path: "/opt/agent.js", SHA256: "s1"}
	approved := coord.Identity{Version: "1", Files: []coord.IdentityFile{node, script}}
	changed, moved := script, script
	changed.SHA256, moved.Path = "s2", "/tmp/agent.js"
	cases := []struct {
		name string
		now  coord.Identity
		want []string
	}{
		{"the same", approved, nil},
		{"another order", coord.Identity{Files: []coord.IdentityFile{script, node}}, nil},
		{"another claimed version", coord.Identity{Version: "2", Files: approved.Files}, nil},
		{"other content", coord.Identity{Files: []coord.IdentityFile{node, changed}}, []string{"script /opt/agent.js has other content"}},
		{"another place", coord.Identity{Files: []coord.IdentityFile{node, moved}}, []string{"script moved from /opt/agent.js to /tmp/agent.js"}},
		{"one gone", coord.Identity{Files: []coord.IdentityFile{node}}, []string{"script /opt/agent.js is gone"}},
		{"one more", coord.Identity{Files: []coord.IdentityFile{node, script, {Role: "package", Path: "/p"}}}, []string{"package /p is new"}},
	}
	for _, c := range cases {
		if diff := cmp.Diff(c.want, approved.Diff(c.now)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestIdentityWithSeveralFilesOfARoleTellsWhatChanged(t *testing.T) {
	pkg := func(path, sum string) coord.IdentityFile {
		return coord.IdentityFile{Role: "package", Path: path, SHA256: sum}
	}
	approved := coord.Identity{Files: []coord.IdentityFile{pkg("/a", "1"), pkg("/b", "2")}}
	cases := []struct {
		name string
		now  []coord.IdentityFile
		want []string
	}{
		{"the same in another order", []coord.IdentityFile{pkg("/b", "2"), pkg("/a", "1")}, nil},
		{"the second changed", []coord.IdentityFile{pkg("/a", "1"), pkg("/b", "3")}, []string{"package /b has other content"}},
		{"the second gone", []coord.IdentityFile{pkg("/a", "1")}, []string{"package /b is gone"}},
		{"a third one", []coord.IdentityFile{pkg("/a", "1"), pkg("/b", "2"), pkg("/c", "3")}, []string{"package /c is new"}},
		{"the second moved", []coord.IdentityFile{pkg("/a", "1"), pkg("/c", "2")}, []string{"package moved from /b to /c"}},
	}
	for _, c := range cases {
		if diff := cmp.Diff(c.want, approved.Diff(coord.Identity{Files: c.now})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestInspectionIsUsableForItsRevisionAndTenMinutes(t *testing.T) {
	seen := at(1000, 100, 0, "a")
	ok := coord.Inspection{Revision: 2, At: seen}
	cases := []struct {
		name     string
		i        *coord.Inspection
		now      coord.Moment
		revision int
		want     bool
	}{
		{"none", nil, seen, 2, false},
		{"fresh", &ok, seen.Add(9 * time.Minute), 2, true},
		{"old", &ok, seen.Add(coord.InspectionTTL), 2, false},
		{"of another revision", &ok, seen, 3, false},
		{"with a problem", &coord.Inspection{Revision: 2, At: seen, Problem: "x"}, seen, 2, false},
	}
	for _, c := range cases {
		if got := c.i.Usable(c.now, c.revision); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

func TestRolesAllowThemselvesAndLess(t *testing.T) {
	order := []coord.Role{coord.RoleRead, coord.RoleDraft, coord.RoleOperator}
	for i, has := range order {
		for n, need := range order {
			if got := has.Allows(need); got != (i >= n) {
				t.Errorf("%s allows %s: %t", has, need, got)
			}
		}
	}
	if coord.Role("").Allows(coord.RoleRead) || coord.RoleOperator.Allows("root") {
		t.Error("a role that does not exist allows or is allowed")
	}
}
