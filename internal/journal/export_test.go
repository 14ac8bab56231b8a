package journal

import "testing"

// Exec changes the memory behind the journal's back.
func (m *Memory) Exec(t testing.TB, statement string) {
	t.Helper()
	defer m.turn()()
	if _, err := m.db.writer.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}
