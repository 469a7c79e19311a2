package main

import (
	"github.com/spf13/cobra"

	"quarry.dev/quarry/internal/evaljob"
	"quarry.dev/quarry/internal/stage"
)

func newEvalCommand() *cobra.Command {
	options := evaljob.Options{}
	cmd := &cobra.Command{
		Use: "eval", Short: "Ask a serving version every question of its eval set and store the report", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options.Out = cmd.OutOrStdout()
			return evaljob.Run(cmd.Context(), options)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&options.Etc, "etc", stage.DefaultEtc, "folder with the mounted configuration, keys and credentials")
	flags.StringVar(&options.TerminationLog, "termination-log", terminationLog, "file for the termination message; empty for none")
	return cmd
}
