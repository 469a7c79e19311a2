//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/api/v1alpha1"
)

const (
	// s3InCluster is how pods reach the S3 server; this machine reaches it by its address.
	s3InCluster    = "http://s3.storage.svc:7070"
	documentBucket = "e2e-documents"
	artifactBucket = "e2e-quarry"
)

// environment is the cluster, the S3 server and the identity provider.
type environment struct {
	// root is the repository's folder.
	root string
	kube client.Client
	// pods reads logs, which kube cannot.
	pods   kubernetes.Interface
	s3     *minio.Client
	s3Keys map[string]string
	issuer *issuer
}

// connect opens everything that the suite needs to exist before it begins.
func connect() (*environment, error) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return nil, err
	}
	env := &environment{root: root}
	if env.issuer, err = newIssuer(); err != nil {
		return nil, err
	}
	return env, errors.Join(env.connectCluster(), env.connectS3())
}

func (e *environment) connectCluster() error {
	path := os.Getenv("KUBECONFIG")
	if path == "" {
		return errors.New("KUBECONFIG is empty: run `make e2e`, or set it to the output of hack/kube/cluster kubeconfig")
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 50, 100
	scheme := runtime.NewScheme()
	if err := errors.Join(clientscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	if e.kube, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	e.pods, err = kubernetes.NewForConfig(config)
	return err
}

// connectS3 learns address and keys from the script that runs the server.
func (e *environment) connectS3() error {
	out, err := e.run(context.Background(), "bash", "-c", `eval "$(hack/s3/s3 env)" && printf '%s\n' "$S3_ENDPOINT" "$S3_ACCESS_KEY" "$S3_SECRET_KEY"`)
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 3 {
		return fmt.Errorf("hack/s3/s3 env printed %d values, not 3", len(lines))
	}
	u, err := url.Parse(lines[0])
	if err != nil {
		return err
	}
	e.s3Keys = map[string]string{"accessKeyID": lines[1], "secretAccessKey": lines[2]}
	e.s3, err = minio.New(u.Host, &minio.Options{
		Creds: credentials.NewStaticV4(lines[1], lines[2], ""), Region: "us-east-1", BucketLookup: minio.BucketLookupPath,
	})
	return err
}

// run executes a program in the repository's folder and returns what it printed.
func (e *environment) run(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = e.root
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, out.String(), problem.String())
	}
	return out.String(), nil
}

// installOperator uses the demonstration's own function, so that the chart is installed in one way only. The pod is made
// anew: an image of the same name may have been loaded since it started.
func installOperator(ctx context.Context) error {
	out, err := world.run(ctx, "bash", "-c", "set -eu -o pipefail; . hack/demo/lib.sh; install_operator")
	if err != nil {
		return err
	}
	GinkgoWriter.Println(strings.TrimSpace(out))
	return restartOperator(ctx)
}

// restartOperator deletes the operator's pods and waits until a new one is ready.
func restartOperator(ctx context.Context) error {
	before, err := operatorPods(ctx)
	if err != nil {
		return err
	}
	old := map[string]bool{}
	for i := range before {
		old[string(before[i].UID)] = true
		if err := world.kube.Delete(ctx, &before[i]); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	await(ctx, 90*time.Second, "a new operator pod is ready", func() error {
		now, err := operatorPods(ctx)
		if err != nil {
			return err
		}
		for _, pod := range now {
			if !old[string(pod.UID)] && podReady(pod) {
				return nil
			}
		}
		return fmt.Errorf("%d pods, none of them new and ready", len(now))
	})
	return nil
}

func operatorPods(ctx context.Context) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := world.kube.List(ctx, list, client.InNamespace(operators), client.MatchingLabels{"app.kubernetes.io/component": "operator"})
	return list.Items, err
}

func podReady(pod corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil
		}
	}
	return false
}

// removeNamespaces deletes the suite's namespaces and waits until they are gone.
func removeNamespaces(ctx context.Context) {
	for _, name := range []string{namespace, strangers} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		Expect(client.IgnoreNotFound(world.kube.Delete(ctx, ns))).To(Succeed())
	}
	for _, name := range []string{namespace, strangers} {
		await(ctx, 3*time.Minute, "the old namespace "+name+" is gone", func() error {
			err := world.kube.Get(ctx, client.ObjectKey{Name: name}, &corev1.Namespace{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			if err != nil {
				return err
			}
			return errors.New("it still exists")
		})
	}
}

func createNamespace(ctx context.Context, name string) {
	Expect(world.kube.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}})).To(Succeed())
}

func prepareNamespace(ctx context.Context) {
	createNamespace(ctx, namespace)
	objects := []client.Object{
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s3"}, StringData: world.s3Keys},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sso"}, Data: map[string]string{"jwks.json": world.issuer.jwks()}},
	}
	for _, tenant := range tenants {
		objects = append(objects, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: tenant + "-questions"},
			Data:       map[string]string{"eval.jsonl": evalSet(tenant)},
		})
	}
	for _, obj := range objects {
		Expect(world.kube.Create(ctx, obj)).To(Succeed())
	}
}

// prepareBuckets makes empty buckets and puts the documents there.
func prepareBuckets(ctx context.Context) {
	for _, bucket := range []string{documentBucket, artifactBucket} {
		exists, err := world.s3.BucketExists(ctx, bucket)
		Expect(err).NotTo(HaveOccurred(), "the S3 server; `hack/s3/s3 up` starts it")
		if !exists {
			Expect(world.s3.MakeBucket(ctx, bucket, minio.MakeBucketOptions{})).To(Succeed())
		}
		for object := range world.s3.ListObjects(ctx, bucket, minio.ListObjectsOptions{Recursive: true}) {
			Expect(object.Err).NotTo(HaveOccurred())
			Expect(world.s3.RemoveObject(ctx, bucket, object.Key, minio.RemoveObjectOptions{})).To(Succeed())
		}
	}
	for _, tenant := range tenants {
		for key, text := range documents(tenant) {
			putDocument(ctx, tenant, key, text)
		}
	}
}

// putDocument writes one object of a tenant's corpus; key is relative to its prefix.
func putDocument(ctx context.Context, tenant, key, content string) {
	GinkgoHelper()
	_, err := world.s3.PutObject(ctx, documentBucket, tenant+"/"+key, strings.NewReader(content), int64(len(content)), minio.PutObjectOptions{})
	Expect(err).NotTo(HaveOccurred(), "put %s/%s", tenant, key)
}

func deleteDocument(ctx context.Context, tenant, key string) {
	GinkgoHelper()
	Expect(world.s3.RemoveObject(ctx, documentBucket, tenant+"/"+key, minio.RemoveObjectOptions{})).To(Succeed())
}
