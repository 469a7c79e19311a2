package main

import (
	"github.com/spf13/cobra"

	"quarry.dev/quarry/internal/stage"
)

func newContextualizeCommand() *cobra.Command {
	return newStageCommand(stage.NameContextualize, "Write the context of each chunk of one shard")
}
