package journal

import "testing"

// Exec changes the memory behind the journal's back.
func (m *Memory) Exec(t testing.TB, statement string) {
	t.Helper()
	m.turn.Lock()
	defer m.turn.Unlock()
	if _, err := m.keep.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}
