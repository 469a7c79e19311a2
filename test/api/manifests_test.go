package api_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kustomized renders a folder with the kubectl of the assets.
func kustomized(ctx context.Context, folder string) []*unstructured.Unstructured {
	GinkgoHelper()
	cmd := exec.CommandContext(ctx, filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), "kustomize", folder)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	Expect(err).NotTo(HaveOccurred(), stderr.String())
	return documents(out)
}

func documents(data []byte) []*unstructured.Unstructured {
	GinkgoHelper()
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(obj)
		if errors.Is(err, io.EOF) {
			return objects
		}
		Expect(err).NotTo(HaveOccurred())
		if len(obj.Object) > 0 {
			objects = append(objects, obj)
		}
	}
}

var _ = Describe("kustomize", func() {
	It("config/default installs, field by field", func(ctx SpecContext) {
		objects := kustomized(ctx, "../../config/default")
		Expect(objects).To(HaveLen(14))
		for _, obj := range objects {
			options := []client.ApplyOption{client.FieldOwner("kustomize"), client.ForceOwnership}
			if obj.GetKind() != "Namespace" {
				options = append(options, client.DryRunAll)
			}
			Expect(api.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), options...)).To(Succeed(), obj.GetKind()+" "+obj.GetName())
		}
	})

	It("config/crd holds the four kinds", func(ctx SpecContext) {
		Expect(kustomized(ctx, "../../config/crd")).To(HaveLen(4))
	})

	It("no aggregated role holds EvalRun", func(ctx SpecContext) {
		for _, obj := range kustomized(ctx, "../../config/rbac") {
			aggregated := false
			for label := range obj.GetLabels() {
				aggregated = aggregated || label == "rbac.authorization.k8s.io/aggregate-to-view" || label == "rbac.authorization.k8s.io/aggregate-to-edit" || label == "rbac.authorization.k8s.io/aggregate-to-admin"
			}
			if data, err := obj.MarshalJSON(); aggregated {
				Expect(err).NotTo(HaveOccurred())
				Expect(string(data)).NotTo(ContainSubstring("evalruns"), obj.GetName())
			}
		}
	})
})
