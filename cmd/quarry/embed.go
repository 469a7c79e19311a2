package main

import (
	"github.com/spf13/cobra"

	"quarry.dev/quarry/internal/stage"
)

func newEmbedCommand() *cobra.Command {
	return newStageCommand(stage.NameEmbed, "Make the vectors of one shard")
}
