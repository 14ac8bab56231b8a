package cli

import (
	"github.com/spf13/cobra"

	"signalbox/internal/demo"
)

func (a *app) demoCommand() *cobra.Command {
	var keep, ask bool
	c := &cobra.Command{
		Use: "demo", Short: "See a job from draft to result, without an account or a network", Args: cobra.NoArgs,
		Long: `Demo makes a data directory of its own, starts Signalbox and a scripted model on
loopback, registers two agents, and takes a job of three tasks from the draft to
the result. It plays the operator and says when; --ask lets you decide.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			state, err := (&demo.Show{Screen: a.Screen, Version: a.Version, Keep: keep, Deciding: ask}).Run(cmd.Context())
			if err != nil {
				return err
			}
			return jobExit(state)
		},
	}
	c.Flags().BoolVar(&keep, "keep", false, "leave it running afterwards, for the command line")
	c.Flags().BoolVar(&ask, "ask", false, "decide yourself, instead of watching")
	return c
}
