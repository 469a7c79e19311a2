package api_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/yaml"

	"quarry.dev/quarry/api/v1alpha1"
)

// The valid objects that every table mutates.
const (
	corpusYAML   = "corpus.yaml"
	pipelineYAML = "pipeline.yaml"
	indexYAML    = "index.yaml"
	evalRunYAML  = "evalrun.yaml"
)

// absent removes a field where a mutation sets it.
type absent struct{}

// load reads a valid object of testdata.
func load(file string) *unstructured.Unstructured {
	GinkgoHelper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	Expect(err).NotTo(HaveOccurred())
	return parse(data)
}

func parse(data []byte) *unstructured.Unstructured {
	GinkgoHelper()
	obj := &unstructured.Unstructured{}
	Expect(yaml.Unmarshal(data, &obj.Object)).To(Succeed())
	obj.SetNamespace("default")
	return obj
}

// set replaces the value at a path such as spec.tenants.0.name; a list index one
// past the end appends. The value is YAML, so that a table reads as users write.
func set(obj *unstructured.Unstructured, path string, value any) {
	GinkgoHelper()
	if text, ok := value.(string); ok {
		var parsed any
		Expect(yaml.Unmarshal([]byte(text), &parsed)).To(Succeed())
		value = parsed
	}
	obj.Object = put(obj.Object, strings.Split(path, "."), value).(map[string]any)
}

func put(at any, path []string, value any) any {
	GinkgoHelper()
	if len(path) == 0 {
		return value
	}
	if list, ok := at.([]any); ok {
		i, err := strconv.Atoi(path[0])
		Expect(err).NotTo(HaveOccurred())
		if i == len(list) {
			list = append(list, nil)
		}
		list[i] = put(list[i], path[1:], value)
		return list
	}
	fields, ok := at.(map[string]any)
	if !ok {
		fields = map[string]any{}
	}
	if _, remove := value.(absent); remove && len(path) == 1 {
		delete(fields, path[0])
		return fields
	}
	fields[path[0]] = put(fields[path[0]], path[1:], value)
	return fields
}

// field reads the value at a path; nil where there is none.
func field(obj *unstructured.Unstructured, path string) any {
	var at any = obj.Object
	for _, name := range strings.Split(path, ".") {
		switch v := at.(type) {
		case map[string]any:
			at = v[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(v) {
				return nil
			}
			at = v[i]
		default:
			return nil
		}
	}
	return at
}

func unmarshal(data []byte, into any) error { return yaml.Unmarshal(data, into) }

// discoveryResources lists what the API server serves for Quarry.
func discoveryResources() ([]metav1.APIResource, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	list, err := client.ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
	if err != nil {
		return nil, err
	}
	return list.APIResources, nil
}
