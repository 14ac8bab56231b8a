package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
	"time"
)

// figure is one line of the table.
type figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Yardstick is what the value is to be seen against, as measured in the
	// same run.
	Yardstick string `json:"yardstick"`
	// Goal is what the value should be; it has none when it is only told.
	Goal  string `json:"goal"`
	Holds bool   `json:"holds"`
}

// atLeast and atMost make a figure with a goal, told only one without.
func atLeast(name string, value, goal float64, unit, yardstick string) figure {
	return figure{name, value, unit, yardstick, "at least " + number(goal), value >= goal}
}

func atMost(name string, value, goal float64, unit, yardstick string) figure {
	return figure{name, value, unit, yardstick, "at most " + number(goal), value <= goal}
}

func told(name string, value float64, unit, yardstick string) figure {
	return figure{name, value, unit, yardstick, "", true}
}

func number(v float64) string { return fmt.Sprintf("%.4g", v) }

// ms is a duration in milliseconds.
func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// median is the middle value; of an even count the lower one.
func median[T time.Duration | float64](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)/2]
}

// table writes the table.
func table(w io.Writer, figures []figure) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(out, "FIGURE\tVALUE\tUNIT\tGOAL\tHOLDS\tYARDSTICK") // a tabwriter fails at Flush
	for _, f := range figures {
		holds := map[bool]string{true: "yes", false: "NO"}[f.Holds]
		if f.Goal == "" {
			holds = ""
		}
		_, _ = fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\n", f.Name, number(f.Value), f.Unit, f.Goal, holds, f.Yardstick)
	}
	return out.Flush()
}

// save writes the figures as JSON.
func save(path string, figures []figure) error {
	doc, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(doc, '\n'), 0o644) //nolint:gosec // figures are for everybody
}
