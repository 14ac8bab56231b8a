// Package coupling says how much of a train an engine can pull.
package coupling

import "errors"

// ErrWeight tells that a wagon weighs less than nothing.
var ErrWeight = errors.New("a wagon weighs less than nothing")

// Longest gives how many of the first wagons weigh at most limit together.
func Longest(wagons []int, limit int) (int, error) {
	n, sum, full := 0, 0, false
	for _, w := range wagons {
		if w < 0 {
			return 0, ErrWeight
		}
		sum += w
		if full = full || sum > limit; !full {
			n++
		}
	}
	return n, nil
}
