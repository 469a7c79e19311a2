package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/artifact"
	"quarry.dev/quarry/internal/pod"
	"quarry.dev/quarry/internal/source"
	"quarry.dev/quarry/internal/stage"
)

func newSyncOnceCommand() *cobra.Command {
	var path, etc, cluster string
	var live []string
	cmd := &cobra.Command{
		Use: "sync-once", Short: "List the source of a Corpus once and publish snapshot and access, as the operator does", Args: cobra.NoArgs,
		Long: "List the source of a Corpus once and publish snapshot and access, as the operator does.\n\n" +
			"It reads the keys of the source from ETC/source/ and those of the artifacts from ETC/artifacts/, in files\n" +
			"accessKeyID, secretAccessKey and sessionToken, and certificates from ETC/source-ca/ca.crt and ETC/artifacts-ca/ca.crt.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			corpus, err := readCorpus(path)
			if err != nil {
				return err
			}
			in := source.InputFromSpec(corpus.Spec)
			in.Owner = artifact.Owner{ClusterUID: cluster, Namespace: corpus.Namespace, Name: corpus.Name}
			in.Live = live
			if in.Source, err = pod.OpenBucket(etc, "source", corpus.Spec.Source.S3.S3Location); err != nil {
				return err
			}
			if in.Artifacts, err = pod.OpenBucket(etc, "artifacts", corpus.Spec.Artifacts.S3.S3Location); err != nil {
				return err
			}
			out, err := source.Sync(cmd.Context(), in)
			if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{
				"snapshot": out.Snapshot, "documents": out.Documents, "bytes": out.Bytes, "withheldDeletions": out.Guarded.Withheld(),
				"epoch": out.Current.Epoch, "overlayChanged": out.OverlayChanged, "failures": out.Failures,
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&path, "corpus", "", "YAML file with one Corpus")
	flags.StringVar(&etc, "etc", stage.DefaultEtc, "folder with the credentials")
	flags.StringVar(&cluster, "cluster-uid", "", "UID of the cluster that owns the artifacts prefix")
	flags.StringArrayVar(&live, "live", nil, "snapshot digest of an Index that is served; repeat it for each")
	return cmd
}

func readCorpus(path string) (*v1alpha1.Corpus, error) {
	if path == "" {
		return nil, errors.New("--corpus is empty: name a YAML file with one Corpus")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	corpus := &v1alpha1.Corpus{}
	if err := yaml.UnmarshalStrict(data, corpus); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if corpus.Kind != "Corpus" || corpus.Spec.Source.S3 == nil {
		return nil, fmt.Errorf("%s: kind is %q, spec.source.s3 may be missing: write one Corpus with an S3 source", path, corpus.Kind)
	}
	if corpus.Namespace == "" {
		corpus.Namespace = "default"
	}
	return corpus, nil
}
