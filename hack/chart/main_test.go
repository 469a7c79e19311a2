package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

const chartFolder = "../../charts/quarry"

type object struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name        string            `json:"name"`
		Namespace   string            `json:"namespace"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	raw []byte
}

// rendered parses every document that the chart renders to.
func rendered(t *testing.T, args ...string) []object {
	t.Helper()
	opts, err := parse(append([]string{chartFolder}, args...))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := render(&out, opts); err != nil {
		t.Fatal(err)
	}
	var objects []object
	for _, doc := range strings.Split(out.String(), "\n---\n") {
		obj := object{raw: []byte(doc)}
		if err := yaml.Unmarshal([]byte(doc), &obj); err != nil {
			t.Fatalf("not YAML: %v\n%s", err, doc)
		}
		if obj.Kind == "" || obj.Metadata.Name == "" {
			t.Fatalf("neither kind nor name:\n%s", doc)
		}
		objects = append(objects, obj)
	}
	return objects
}

func find[T any](t *testing.T, objects []object, kind, name string) T {
	t.Helper()
	var into T
	for _, obj := range objects {
		if obj.Kind == kind && obj.Metadata.Name == name {
			if err := yaml.UnmarshalStrict(obj.raw, &into); err != nil {
				t.Fatal(err)
			}
			return into
		}
	}
	t.Fatalf("no %s %s", kind, name)
	return into
}

func count(objects []object, kind string) int {
	n := 0
	for _, obj := range objects {
		if obj.Kind == kind {
			n++
		}
	}
	return n
}

func TestDefaults(t *testing.T) {
	objects := rendered(t, "--namespace", "apps", "--create-namespace")
	if objects[0].Kind != "Namespace" || objects[0].Metadata.Name != "apps" {
		t.Errorf("the namespace does not come first: %+v", objects[0])
	}
	if n := count(objects, "CustomResourceDefinition"); n != 4 {
		t.Errorf("%d CustomResourceDefinitions, want 4", n)
	}
	for _, obj := range objects {
		if obj.Kind == "CustomResourceDefinition" && obj.Metadata.Annotations["helm.sh/resource-policy"] != "keep" {
			t.Errorf("%s would be deleted with the release, and every object with it", obj.Metadata.Name)
		}
	}
	deployment := find[appsv1.Deployment](t, objects, "Deployment", "quarry")
	container := deployment.Spec.Template.Spec.Containers[0]
	if want := "--image=" + container.Image; !slices.Contains(container.Args, want) {
		t.Errorf("args %v lack %s", container.Args, want)
	}
	if sc := container.SecurityContext; !*sc.ReadOnlyRootFilesystem || *sc.AllowPrivilegeEscalation || !*deployment.Spec.Template.Spec.SecurityContext.RunAsNonRoot {
		t.Error("the operator is not restricted")
	}
}

func TestValues(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		kind string
		want int
	}{
		{"no CRDs", []string{"--set", "crds.enabled=false"}, "CustomResourceDefinition", 0},
		{"no metrics", []string{"--set", "metrics.enabled=false"}, "Service", 0},
		{"no network policy", []string{"--set", "networkPolicy.enabled=false"}, "NetworkPolicy", 0},
		{"own service account", []string{"--set", "serviceAccount.create=false", "--set", "serviceAccount.name=mine"}, "ServiceAccount", 0},
		{"one namespace", []string{"--set", "watchNamespace=rag"}, "Role", 2},
	} {
		if got := count(rendered(t, c.args...), c.kind); got != c.want {
			t.Errorf("%s: %d objects of kind %s, want %d", c.name, got, c.kind, c.want)
		}
	}
	for _, obj := range rendered(t, "--set", "crds.keep=false") {
		if obj.Metadata.Annotations["helm.sh/resource-policy"] != "" {
			t.Errorf("%s is kept", obj.Metadata.Name)
		}
	}
	digest := "sha256:" + strings.Repeat("a", 64)
	deployment := find[appsv1.Deployment](t, rendered(t, "--set", "image.digest="+digest), "Deployment", "quarry")
	if image := deployment.Spec.Template.Spec.Containers[0].Image; image != "quarry@"+digest {
		t.Errorf("image %s", image)
	}
}

func TestWrongValues(t *testing.T) {
	for set, want := range map[string]string{
		"imagee=x":                    "imagee",
		"replicas=many":               "/replicas",
		"image.digest=x":              "/image/digest",
		"crds.keep=1":                 "/crds/keep",
		"serviceAccount.create=false": "serviceAccount.name is empty",
	} {
		opts, err := parse([]string{chartFolder, "--set", set})
		if err != nil {
			t.Fatal(err)
		}
		if err := render(&bytes.Buffer{}, opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--set %s: %v, want a message with %s", set, err, want)
		}
	}
}

func TestRights(t *testing.T) {
	objects := rendered(t)
	role := find[rbacv1.ClusterRole](t, objects, "ClusterRole", "quarry")
	for _, rule := range role.Rules {
		if slices.Contains(rule.Resources, "secrets") && (slices.Contains(rule.Verbs, "list") || slices.Contains(rule.Verbs, "watch")) {
			t.Errorf("the operator may read every Secret: %v", rule)
		}
		if slices.Contains(rule.Verbs, "*") || slices.Contains(rule.Resources, "*") || slices.Contains(rule.APIGroups, "*") {
			t.Errorf("a right without bounds: %v", rule)
		}
	}
	for _, obj := range objects {
		for label := range obj.Metadata.Labels {
			if strings.HasPrefix(label, "rbac.authorization.k8s.io/aggregate-to-") && bytes.Contains(obj.raw, []byte("evalruns")) {
				t.Errorf("%s gives EvalRun to everybody who has %s", obj.Metadata.Name, label)
			}
		}
	}
}

// TestRightsOfTheMarkers: what the controllers' markers ask for, the chart grants.
func TestRightsOfTheMarkers(t *testing.T) {
	data, err := os.ReadFile("../../config/rbac/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var wanted rbacv1.ClusterRole
	if err := yaml.Unmarshal(bytes.TrimPrefix(data, []byte("---\n")), &wanted); err != nil {
		t.Fatal(err)
	}
	objects := rendered(t)
	granted := append(find[rbacv1.ClusterRole](t, objects, "ClusterRole", "quarry").Rules,
		find[rbacv1.ClusterRole](t, objects, "ClusterRole", "quarry-cluster-uid").Rules...)
	for _, rule := range wanted.Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					if !slices.ContainsFunc(granted, func(g rbacv1.PolicyRule) bool {
						return slices.Contains(g.APIGroups, group) && slices.Contains(g.Resources, resource) && slices.Contains(g.Verbs, verb)
					}) {
						t.Errorf("the chart does not grant %s of %s in group %q", verb, resource, group)
					}
				}
			}
		}
	}
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{{}, {"a", "b"}, {"a", "--unknown"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%v was accepted", args)
		}
	}
	opts, err := parse([]string{"--namespace", "n", "folder", "--set", "a=b", "--set", "c=d"})
	if err != nil || opts.chart != "folder" || opts.namespace != "n" || len(opts.sets) != 2 {
		t.Errorf("%+v, %v", opts, err)
	}
}
