package main

import (
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"quarry.dev/quarry/internal/identity"
	"quarry.dev/quarry/internal/pod"
	"quarry.dev/quarry/internal/stage"
)

func newServeCommand() *cobra.Command {
	options := pod.Options{}
	cmd := &cobra.Command{Use: "serve", Short: "Serve one role of an index version"}
	flags := cmd.PersistentFlags()
	flags.StringVar(&options.Etc, "etc", stage.DefaultEtc, "folder with the mounted configuration, keys and credentials")
	flags.StringVar(&options.Data, "data", "/data", "folder to keep the index in")
	flags.StringVar(&options.Address, "address", ":8080", "where the API is served")
	flags.StringVar(&options.AdminAddress, "admin-address", ":8081", "where /healthz, /readyz and /metrics are served")
	add := func(use, short string, run func(cmd *cobra.Command) error) *cobra.Command {
		role := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			options.Log = slog.New(slog.NewJSONHandler(os.Stderr, nil))
			return run(cmd)
		}}
		cmd.AddCommand(role)
		return role
	}
	add("bm25", "Serve the lexical retriever", func(cmd *cobra.Command) error {
		return pod.Retriever(cmd.Context(), identity.RoleBM25, options)
	})
	add("hnsw", "Serve the vector retriever", func(cmd *cobra.Command) error {
		return pod.Retriever(cmd.Context(), identity.RoleHNSW, options)
	})
	add("reranker", "Serve the reranker", func(cmd *cobra.Command) error {
		return pod.Reranker(cmd.Context(), options)
	})
	gateway := add("gateway", "Serve the API of a tenant", func(cmd *cobra.Command) error {
		return pod.Gateway(cmd.Context(), options)
	})
	gateway.Flags().StringVar(&options.EvalAddress, "eval-address", ":8082", "where evaluations ask, with tokens of their own")
	return cmd
}
