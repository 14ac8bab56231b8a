package tincan

import "signalbox/internal/coord"

// Identify is identify.
func Identify(executable, path string) (coord.Identity, error) {
	id, _, err := identify(executable, path)
	return id, err
}

// Parse is parse.
func Parse(dialect, agent, peer, id string, code int, stdout []byte) (got, state, body string, err error) {
	a, err := parse(asked{dialect, agent, peer, id}, output{code: code, stdout: stdout})
	return a.id, string(a.status), a.body, err
}

// Names gives the names in a list of agents.
func Names(stdout []byte) []string {
	rows, _ := parseAgents(stdout)
	var out []string
	for _, r := range rows {
		out = append(out, r.name)
	}
	return out
}
