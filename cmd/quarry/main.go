// Command quarry is every part of Quarry in one binary: the operator, the bodies of its Jobs, the serving processes, and
// the same on a local folder.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends what does not heed the first
	err := newRootCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "quarry:", err)
		os.Exit(1)
	}
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "quarry",
		Version:       version,
		Short:         "Managed RAG indexes: built, judged and served on Kubernetes",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(
		newOperatorCommand(), newSyncOnceCommand(),
		newChunkCommand(), newContextualizeCommand(), newEmbedCommand(), newBuildCommand(),
		newServeCommand(), newEvalCommand(), newLocalCommand(),
	)
	return root
}
