package main

import (
	"github.com/spf13/cobra"

	"quarry.dev/quarry/internal/stage"
)

const terminationLog = "/dev/termination-log"

// newStageCommand is the body of one Job of an Index.
func newStageCommand(name, short string) *cobra.Command {
	options := stage.Options{}
	cmd := &cobra.Command{
		Use: name, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options.Out = cmd.OutOrStdout()
			return stage.Run(cmd.Context(), name, options)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&options.Etc, "etc", stage.DefaultEtc, "folder with the mounted configuration and credentials")
	flags.StringVar(&options.TerminationLog, "termination-log", terminationLog, "file for the termination message; empty for none")
	flags.IntVar(&options.Shard, "shard", -1, "shard to work on; -1 takes JOB_COMPLETION_INDEX")
	return cmd
}
