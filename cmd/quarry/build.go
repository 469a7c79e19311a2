package main

import (
	"github.com/spf13/cobra"

	"quarry.dev/quarry/internal/stage"
)

func newBuildCommand() *cobra.Command {
	return newStageCommand(stage.NameBuild, "Make one segment and the manifest of all shards")
}
