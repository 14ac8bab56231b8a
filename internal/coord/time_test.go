package coord_test

import (
	"testing"
	"time"

	"signalbox/internal/coord"
)

// at is a moment: wall and boot clocks in seconds, asleep of them.
func at(wall, boot, asleep int, id string) coord.Moment {
	return coord.Moment{
		Wall: time.Unix(int64(wall), 0).UTC(), BootID: id,
		Boot: time.Duration(boot) * time.Second, Awake: time.Duration(boot-asleep) * time.Second,
	}
}

func TestSpansAreTrueAcrossSleepClockChangesAndReboots(t *testing.T) {
	start := at(1000, 50, 0, "a")
	cases := []struct {
		name         string
		now          coord.Moment
		since, awake int
	}{
		{"nothing happened", start, 0, 0},
		{"time passed", at(1100, 150, 0, "a"), 100, 100},
		{"the machine slept", at(1100, 150, 90, "a"), 100, 10},
		{"the clock was set back", at(400, 150, 0, "a"), 100, 100},
		{"the clock was set forward", at(9000, 150, 0, "a"), 100, 100},
		{"a reboot", at(1300, 20, 0, "b"), 300, 20},
		{"a reboot and sleep", at(1300, 200, 150, "b"), 300, 50},
		{"a reboot with the clock set back", at(400, 20, 0, "b"), 0, 20},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got, want := c.now.Since(start), time.Duration(c.since)*time.Second; got != want {
				t.Errorf("Since = %s, want %s", got, want)
			}
			if got, want := c.now.AwakeSince(start), time.Duration(c.awake)*time.Second; got != want {
				t.Errorf("AwakeSince = %s, want %s", got, want)
			}
		})
	}
}

func TestAddMovesEveryClock(t *testing.T) {
	start := at(1000, 50, 10, "a")
	later := start.Add(time.Minute)
	if later.Since(start) != time.Minute || later.AwakeSince(start) != time.Minute || !later.Wall.Equal(start.Wall.Add(time.Minute)) {
		t.Errorf("a minute after %+v is %+v", start, later)
	}
}

func TestDeadlineCountsSleepAndSurvivesClockChanges(t *testing.T) {
	started := at(1000, 50, 0, "a")
	job := coord.Job{Deadline: coord.Duration(time.Hour), Started: &started}
	cases := []struct {
		name string
		now  coord.Moment
		left time.Duration
	}{
		{"asleep all along", at(1000+3000, 50+3000, 3000, "a"), 10 * time.Minute},
		{"the clock set back by a day", at(1000-86400, 50+3000, 0, "a"), 10 * time.Minute},
		{"passed during a reboot", at(1000+3700, 5, 0, "b"), -100 * time.Second},
	}
	for _, c := range cases {
		if got := job.Left(c.now); got != c.left {
			t.Errorf("%s: %s left, want %s", c.name, got, c.left)
		}
	}
}
