package coupling

import (
	"errors"
	"testing"
)

func TestLongest(t *testing.T) {
	for _, c := range []struct {
		name   string
		wagons []int
		limit  int
		want   int
	}{
		{"no wagons", nil, 100, 0},
		{"all fit", []int{10, 20, 30}, 60, 3},
		{"the last is too much", []int{10, 20, 31}, 60, 2},
		{"a light one behind a heavy one stays behind", []int{10, 90, 1}, 50, 1},
		{"an empty wagon costs nothing", []int{10, 0, 0}, 10, 3},
		{"nothing can be pulled", []int{1}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Longest(c.wagons, c.limit)
			if err != nil || got != c.want {
				t.Errorf("got %d (%v), want %d", got, err, c.want)
			}
		})
	}
}

func TestAWagonCannotWeighLessThanNothing(t *testing.T) {
	if _, err := Longest([]int{10, 100, -1}, 20); !errors.Is(err, ErrWeight) {
		t.Errorf("the error is %v", err)
	}
}
