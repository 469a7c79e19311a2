package desired

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/stage"
)

var updateJobs = flag.Bool("update-jobs", false, "write the golden files anew")

func jobsInput() JobsInput {
	location := func(bucket string) v1alpha1.S3Location {
		return v1alpha1.S3Location{Endpoint: "http://s3.storage.svc:7070", Region: "us-east-1", Bucket: bucket, Prefix: "acme/", Addressing: v1alpha1.AddressingPath}
	}
	digest := "sha256:" + "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	indexing := v1alpha1.IndexingSpec{}
	indexing.Chunking = v1alpha1.ChunkingSpec{Strategy: v1alpha1.ChunkStructure, Unit: v1alpha1.ChunkTokens, Size: 256, Overlap: 32}
	indexing.Context.Type = v1alpha1.ContextHeading
	indexing.Embedding = v1alpha1.EmbeddingSpec{Type: v1alpha1.EmbeddingBuiltin, Model: "static-256"}
	return JobsInput{
		Shards: 4,
		Pipeline: &v1alpha1.RetrievalPipeline{
			ObjectMeta: metav1.ObjectMeta{Namespace: "rag", Name: "support"},
			Spec:       v1alpha1.RetrievalPipelineSpec{Build: v1alpha1.BuildSpec{Shards: 4, Parallelism: 2}},
		},
		Corpus: &v1alpha1.Corpus{
			ObjectMeta: metav1.ObjectMeta{Namespace: "rag", Name: "acme-docs"},
			Spec: v1alpha1.CorpusSpec{
				Source: v1alpha1.SourceSpec{Type: v1alpha1.SourceS3, S3: &v1alpha1.S3Source{
					S3Location: location("documents"), CredentialsRef: v1alpha1.SecretRef{Name: "acme-s3"},
					CABundleRef: &v1alpha1.KeyRef{Name: "s3-ca", Key: "tls.pem"},
				}},
				Artifacts: v1alpha1.ArtifactsSpec{S3: v1alpha1.ArtifactsS3{
					S3Location: location("quarry"), WriteCredentialsRef: v1alpha1.SecretRef{Name: "acme-write"}, ReadCredentialsRef: v1alpha1.SecretRef{Name: "acme-read"},
				}},
			},
		},
		Index: &v1alpha1.Index{
			ObjectMeta: metav1.ObjectMeta{Namespace: "rag", Name: "support-acme-7f9c4d0011"},
			Spec: v1alpha1.IndexSpec{
				PipelineRef: v1alpha1.LocalRef{Name: "support"}, Tenant: "acme", CorpusRef: v1alpha1.LocalRef{Name: "acme-docs"},
				Snapshot: v1alpha1.SnapshotRef{Digest: digest}, Indexing: indexing, Image: "quarry:test", VersionDigest: digest,
			},
		},
	}
}

func TestJobsGolden(t *testing.T) {
	in := jobsInput()
	config, err := JobsConfig(in)
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string]client.Object{"jobs-config": config, "jobs-networkpolicy": JobsNetworkPolicy(in)}
	for _, stage := range Stages(in.Index) {
		objects["job-"+string(stage)] = StageJob(in, stage)
	}
	for name, obj := range objects {
		golden(t, name, obj)
	}
}

// TestParent: a parent counts only in the same bucket and of the same recipe, and stays what it was when the Jobs began.
func TestParent(t *testing.T) {
	in := jobsInput()
	artifactOf := func(change func(*v1alpha1.Index)) *v1alpha1.Index {
		parent := in.Index.DeepCopy()
		parent.Name, parent.Spec.Snapshot.Digest = "support-acme-0", "sha256:"+strings.Repeat("ab", 32)
		parent.Status.Artifact = &v1alpha1.ArtifactStatus{Digest: "sha256:" + strings.Repeat("cd", 32)}
		change(parent)
		return parent
	}
	good := artifactOf(func(*v1alpha1.Index) {})
	want := stage.Parent{ContentDigest: ContentDigest(good), ManifestDigest: good.Status.Artifact.Digest}
	if got := Parent(in.Index, good, nil); got != want {
		t.Errorf("%+v, not %+v", got, want)
	}
	for name, parent := range map[string]*v1alpha1.Index{
		"none":           nil,
		"not built":      artifactOf(func(p *v1alpha1.Index) { p.Status.Artifact = nil }),
		"other corpus":   artifactOf(func(p *v1alpha1.Index) { p.Spec.CorpusRef.Name = "globex-docs" }),
		"other recipe":   artifactOf(func(p *v1alpha1.Index) { p.Spec.Indexing.Chunking.Size = 128 }),
		"other analyzer": artifactOf(func(p *v1alpha1.Index) { p.Spec.Indexing.BM25.Analyzer = "german" }),
	} {
		if got := Parent(in.Index, parent, nil); got != (stage.Parent{}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	in.Parent = want
	live, err := JobsConfig(in)
	if err != nil {
		t.Fatal(err)
	}
	if got := Parent(in.Index, nil, live); got != want {
		t.Errorf("the parent is gone, and with it what the Jobs began with: %+v", got)
	}
	in.Parent = stage.Parent{}
	if live, err = JobsConfig(in); err != nil {
		t.Fatal(err)
	}
	if got := Parent(in.Index, good, live); got != (stage.Parent{}) {
		t.Errorf("a parent appears after the Jobs began: %+v", got)
	}
}

func golden(t *testing.T, name string, obj client.Object) {
	t.Helper()
	got, err := yaml.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name+".yaml")
	if *updateJobs {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s differs from what is built; run the test with -update-jobs and read the difference:\n%s", path, got)
	}
}

func TestOnlyTheChunkJobSeesTheSource(t *testing.T) {
	in := jobsInput()
	for _, stage := range Stages(in.Index) {
		pod := StageJob(in, stage).Spec.Template.Spec
		var secrets []string
		for _, volume := range pod.Volumes {
			if volume.Secret != nil {
				secrets = append(secrets, volume.Secret.SecretName)
			}
		}
		want := 1
		if stage == ChunkPart {
			want = 3
		}
		if len(secrets) != want {
			t.Errorf("%s mounts %v", stage, secrets)
		}
		if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
			t.Errorf("%s mounts a service account token", stage)
		}
	}
}

func TestShardsNeverChangeForAnIndex(t *testing.T) {
	in := jobsInput()
	config, err := JobsConfig(in)
	if err != nil {
		t.Fatal(err)
	}
	in.Pipeline.Spec.Build.Shards = 9
	if got := Shards(in.Pipeline, config); got != 4 {
		t.Errorf("an Index that was started with 4 shards goes on with %d", got)
	}
	if got := Shards(in.Pipeline, nil); got != 9 {
		t.Errorf("a new Index gets %d shards", got)
	}
	if got := Shards(&v1alpha1.RetrievalPipeline{}, &corev1.ConfigMap{}); got != 1 {
		t.Errorf("without any number: %d shards", got)
	}
}

func TestNoContextsNoJob(t *testing.T) {
	in := jobsInput()
	in.Index.Spec.Indexing.Context.Type = v1alpha1.ContextNone
	for _, stage := range Stages(in.Index) {
		if stage == ContextualizePart {
			t.Fatal("a recipe without contexts has a contextualize Job")
		}
	}
}
