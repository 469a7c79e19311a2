package main

import (
	"github.com/spf13/cobra"

	"quarry.dev/quarry/internal/stage"
)

func newChunkCommand() *cobra.Command {
	return newStageCommand(stage.NameChunk, "Parse and chunk the documents of one shard")
}
