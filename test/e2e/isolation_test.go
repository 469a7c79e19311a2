//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/internal/desired"
)

const (
	// strangers is a namespace that has nothing to do with the pipeline.
	strangers  = "e2e-strangers"
	probeImage = "quarry.dev/probe:dev"
)

// door is one port of a pod or a Service of tenant a.
type door struct {
	name, component string
	port            int
	url             string
	// passing: its stack is not the active one, and may be taken down while the spec runs.
	passing bool
}

// public tells whether anybody may knock: the gateway's own port, where a token decides.
func (d door) public() bool {
	return d.component == string(desired.GatewayPart) && (d.port == desired.PortAPI || d.port == 80)
}

func isolation(ctx SpecContext) {
	awaitSettled(ctx)
	loadProbe(ctx)
	doors := doorsOf(ctx, "a")
	GinkgoWriter.Printf("  %d doors of tenant a\n", len(doors))
	createNamespace(ctx, strangers)
	active, err := activeIndex(ctx, pipeline, "a")
	Expect(err).NotTo(HaveOccurred())

	b := map[string]string{desired.LabelName: "quarry", desired.LabelPipeline: pipeline, desired.LabelTenant: "b"}
	evalOfB := maps.Clone(b)
	evalOfB[desired.LabelComponent] = string(desired.EvalPart)
	gatewayOfA := map[string]string{
		desired.LabelName: "quarry", desired.LabelPipeline: pipeline, desired.LabelTenant: "a",
		desired.LabelIndex: desired.LabelValue(active), desired.LabelComponent: string(desired.GatewayPart),
	}
	for _, intruder := range []struct {
		name, namespace string
		labels          map[string]string
		inside          bool
	}{
		{"intruder-tenant", namespace, b, false},
		{"intruder-eval", namespace, evalOfB, false},
		{"intruder-elsewhere", strangers, gatewayOfA, false},
		// Who may create pods here may call them gateways, and the network lets them in. Without the gateway's key they get nothing.
		{"intruder-inside", namespace, gatewayOfA, true},
	} {
		for _, token := range []string{"", ann("b").token()} {
			By(fmt.Sprintf("a pod in %s with labels %v knocks, with a token of tenant b: %t", intruder.namespace, intruder.labels, token != ""))
			results := knock(ctx, intruder.namespace, intruder.name, intruder.labels, token, doors)
			seen := map[string]int{}
			for _, d := range doors {
				first, _, _ := strings.Cut(results[d.url], ":")
				seen[first]++
				expectShut(d, results[d.url], intruder.inside)
			}
			GinkgoWriter.Printf("  %v\n", seen)
		}
	}
	By("the probe is no blind witness: with its own token it reaches its own tenant")
	own, err := tenantService(ctx, pipeline, "b")
	Expect(err).NotTo(HaveOccurred())
	url := "http://" + own.Spec.ClusterIP + "/v1/search"
	results := knock(ctx, namespace, "witness", b, ann("b").token(), []door{{url: url}})
	Expect(results[url]).To(Equal("status 200"))
}

// expectShut: the public door answers 401 and nothing else; every other one does not even connect, or, for who sits inside
// the network's borders, answers 401.
func expectShut(d door, result string, inside bool) {
	GinkgoHelper()
	what := fmt.Sprintf("%s, port %d (%s)", d.name, d.port, d.url)
	switch {
	case inside:
		Expect(result).To(Or(Equal("status 401"), HavePrefix("unreachable")), what)
	case d.public() && d.passing:
		Expect(result).To(Or(Equal("status 401"), HavePrefix("unreachable")), what)
	case d.public():
		Expect(result).To(Equal("status 401"), what)
	default:
		Expect(result).To(HavePrefix("unreachable"), what)
	}
}

// doorsOf lists every port that pods of Quarry use, of every pod and every Service of the tenant.
func doorsOf(ctx context.Context, tenant string) []door {
	GinkgoHelper()
	labels := client.MatchingLabels{desired.LabelPipeline: pipeline, desired.LabelTenant: tenant}
	pods, services := &corev1.PodList{}, &corev1.ServiceList{}
	Expect(world.kube.List(ctx, pods, client.InNamespace(namespace), labels)).To(Succeed())
	Expect(world.kube.List(ctx, services, client.InNamespace(namespace), labels)).To(Succeed())
	active, err := activeIndex(ctx, pipeline, tenant)
	Expect(err).NotTo(HaveOccurred())
	var doors []door
	add := func(obj client.Object, component, ip string, ports ...int) {
		index := obj.GetLabels()[desired.LabelIndex]
		name := fmt.Sprintf("%s %s", desired.KindOf(obj), obj.GetName())
		for _, port := range ports {
			path := "/v1/search"
			if component != string(desired.GatewayPart) {
				path = "/v1/retrieve"
			}
			url := "http://" + net.JoinHostPort(ip, strconv.Itoa(port)) + path
			doors = append(doors, door{name, component, port, url, index != "" && index != desired.LabelValue(active)})
		}
	}
	seen := map[string]bool{}
	for _, pod := range pods.Items {
		if !podReady(pod) {
			continue
		}
		component := pod.Labels[desired.LabelComponent]
		seen[component] = true
		add(&pod, component, pod.Status.PodIP, desired.PortAPI, desired.PortAdmin, desired.PortEval)
	}
	for _, service := range services.Items {
		component := service.Labels[desired.LabelComponent]
		ports := []int{desired.PortAPI, desired.PortAdmin, desired.PortEval}
		if service.Name == desired.TenantServiceName(pipeline, tenant) {
			component, ports = string(desired.GatewayPart), append(ports, 80)
		}
		// A port that a Service does not have is shut like any other, also for the tenant Service: its public one is 80.
		for _, port := range ports {
			if service.Name == desired.TenantServiceName(pipeline, tenant) && port == desired.PortAPI {
				continue
			}
			add(&service, component, service.Spec.ClusterIP, port)
		}
	}
	version, err := getIndex(ctx, active)
	Expect(err).NotTo(HaveOccurred())
	for _, role := range desired.Roles(version) {
		Expect(seen).To(HaveKey(string(role)), "no ready pod of role %s to knock at", role)
	}
	return doors
}

// loadProbe makes an image of the probe and loads it into the cluster.
func loadProbe(ctx context.Context) {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	script := `set -eu; cd hack/image; CGO_ENABLED=0 go build -trimpath -o "$1/probe" ./probe; go run . -binary "$1/probe" -tag "$2" -out "$1/probe.tar"; ../kube/cluster load "$1/probe.tar"`
	_, err := world.run(ctx, "bash", "-c", script, "bash", filepath.Clean(dir), probeImage)
	Expect(err).NotTo(HaveOccurred())
}

// knock runs a pod that posts a search to every door, and returns what it saw by URL: "status N", or "unreachable: why".
func knock(ctx context.Context, ns, name string, labels map[string]string, token string, doors []door) map[string]string {
	GinkgoHelper()
	return knockAfter(ctx, 0, ns, name, labels, token, doors)
}

// knockAfter waits before it knocks, until the network knows the new pod.
func knockAfter(ctx context.Context, wait time.Duration, ns, name string, labels map[string]string, token string, doors []door) map[string]string {
	GinkgoHelper()
	args := []string{"knock"}
	for _, d := range doors {
		args = append(args, d.url)
	}
	pod := probePod(ns, name, labels, token, args)
	pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, corev1.EnvVar{Name: "PAUSE", Value: wait.String()})
	Expect(world.kube.Create(ctx, pod)).To(Succeed())
	await(ctx, time.Minute, "the pod "+name+" has knocked at every door", func() error {
		if err := world.kube.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if pod.Status.Phase == corev1.PodFailed {
			Fail("the probe failed: " + podState(*pod) + "\n" + podLog(ctx, ns, name, 50))
		}
		if pod.Status.Phase != corev1.PodSucceeded {
			return errors.New(podState(*pod))
		}
		return nil
	})
	text := podLog(ctx, ns, name, 1000)
	Expect(world.kube.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
	await(ctx, time.Minute, "the pod "+name+" is gone", func() error {
		err := world.kube.Get(ctx, client.ObjectKeyFromObject(pod), pod)
		if err == nil {
			return errors.New("it still exists")
		}
		return client.IgnoreNotFound(err)
	})
	results := map[string]string{}
	for line := range strings.Lines(text) {
		if url, result, found := strings.Cut(strings.TrimSpace(line), " "); found {
			results[url] = result
		}
	}
	for _, d := range doors {
		Expect(results).To(HaveKey(d.url), "the probe said nothing about it:\n%s", text)
	}
	return results
}

// probePod is never Ready, so that no Service sends anybody's search to it.
func probePod(ns, name string, labels map[string]string, token string, args []string) *corev1.Pod {
	yes, no := true, false
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: labels},
		Spec: corev1.PodSpec{
			RestartPolicy:                corev1.RestartPolicyNever,
			AutomountServiceAccountToken: &no,
			SecurityContext:              &corev1.PodSecurityContext{RunAsNonRoot: &yes, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{
				Name: "probe", Image: probeImage, ImagePullPolicy: corev1.PullIfNotPresent, Args: args,
				Env: []corev1.EnvVar{{Name: "TOKEN", Value: token}},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
				ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/nothing"}}}},
				Resources:      small(),
			}},
		},
	}
}
