package process

import "testing"

func TestParseStat(t *testing.T) {
	tail := " S 12 34 56 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 10 20"
	for _, c := range []struct {
		name, line string
		want       entry
		ok         bool
	}{
		{"plain", "9 (sh)" + tail, entry{pid: 9, parent: 12, group: 34, session: 56, start: 987654}, true},
		{"name with spaces and parentheses", "9 (a) R 1 (b)" + tail, entry{pid: 9, parent: 12, group: 34, session: 56, start: 987654}, true},
		{"zombie", "9 (sh) Z" + tail[2:], entry{pid: 9, parent: 12, group: 34, session: 56, start: 987654, zombie: true}, true},
		{"empty", "", entry{}, false},
		{"cut", "9 (sh) S 12 34", entry{}, false},
		{"no name", "9 S 1 2 3", entry{}, false},
		{"words for numbers", "9 (sh) S a b c 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 5", entry{}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := parseStat([]byte(c.line))
			if got != c.want || ok != c.ok {
				t.Errorf("got %+v, %v", got, ok)
			}
		})
	}
}
