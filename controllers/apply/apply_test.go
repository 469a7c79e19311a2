package apply_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.dev/quarry/controllers/apply"
	"quarry.dev/quarry/controllers/testenv"
)

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: data}
}

func owner(ctx context.Context, name string) *corev1.ConfigMap {
	obj := configMap(name, nil)
	Expect(api.Create(ctx, obj)).To(Succeed())
	return obj
}

var _ = Describe("Apply", func() {
	It("creates, writes nothing when idle, repairs drift, removes what the intent drops, keeps what others add", func(ctx context.Context) {
		boss := owner(ctx, "boss-1")
		var w testenv.Writes
		c := w.Wrap(api)
		Expect(apply.Apply(ctx, c, configMap("child-1", map[string]string{"a": "1", "b": "2"}), boss)).To(Succeed())
		Expect(w.Count()).To(Equal(int64(1)))
		Expect(apply.Apply(ctx, c, configMap("child-1", map[string]string{"a": "1", "b": "2"}), boss)).To(Succeed())
		Expect(w.Count()).To(Equal(int64(1)), "an idle apply writes")

		live := &corev1.ConfigMap{}
		Expect(api.Get(ctx, client.ObjectKey{Namespace: "default", Name: "child-1"}, live)).To(Succeed())
		Expect(live.OwnerReferences).To(HaveLen(1))
		live.Data["a"] = "changed"
		live.Data["theirs"] = "kept"
		Expect(api.Update(ctx, live, client.FieldOwner("somebody"))).To(Succeed())

		Expect(apply.Apply(ctx, c, configMap("child-1", map[string]string{"a": "1"}), boss)).To(Succeed())
		Expect(api.Get(ctx, client.ObjectKeyFromObject(live), live)).To(Succeed())
		Expect(live.Data).To(Equal(map[string]string{"a": "1", "theirs": "kept"}))
		before := w.Count()
		Expect(apply.Apply(ctx, c, configMap("child-1", map[string]string{"a": "1"}), boss)).To(Succeed())
		Expect(w.Count()).To(Equal(before))
	})

	It("refuses an object that another owner, or nobody, controls, and leaves it untouched", func(ctx context.Context) {
		boss, other := owner(ctx, "boss-2"), owner(ctx, "other-2")
		Expect(apply.Apply(ctx, api, configMap("child-2", map[string]string{"a": "1"}), other)).To(Succeed())
		err := apply.Apply(ctx, api, configMap("child-2", map[string]string{"a": "2"}), boss)
		conflict, ok := apply.AsNameConflict(err)
		Expect(ok).To(BeTrue())
		Expect(*conflict).To(Equal(apply.NameConflict{Kind: "ConfigMap", Name: "child-2", Owner: "ConfigMap/other-2"}))

		owner(ctx, "child-3")
		for _, try := range []func() error{
			func() error { return apply.Apply(ctx, api, configMap("child-3", map[string]string{"a": "1"}), boss) },
			func() error { _, err := apply.Create(ctx, api, configMap("child-3", nil), boss); return err },
		} {
			conflict, ok = apply.AsNameConflict(try())
			Expect(ok).To(BeTrue())
			Expect(conflict.Owner).To(Equal("nobody"))
		}
		Expect(apply.Delete(ctx, api, configMap("child-3", nil), boss)).To(Succeed())
		live := &corev1.ConfigMap{}
		Expect(api.Get(ctx, client.ObjectKey{Namespace: "default", Name: "child-3"}, live)).To(Succeed())
		Expect(live.Data).To(BeEmpty())
	})

	It("finds nothing to do on kinds with many defaults, and repairs a foreign network rule", func(ctx context.Context) {
		boss := owner(ctx, "boss-4")
		var w testenv.Writes
		c := w.Wrap(api)
		for range 2 {
			for _, obj := range []client.Object{deployment("many"), service("many"), policy("many")} {
				Expect(apply.Apply(ctx, c, obj, boss)).To(Succeed())
			}
		}
		Expect(w.Count()).To(Equal(int64(3)))
		live := policy("many")
		Expect(api.Get(ctx, client.ObjectKeyFromObject(live), live)).To(Succeed())
		live.Spec.Egress = append(live.Spec.Egress, networkingv1.NetworkPolicyEgressRule{})
		Expect(api.Update(ctx, live)).To(Succeed())
		Expect(apply.Apply(ctx, c, policy("many"), boss)).To(Succeed())
		Expect(api.Get(ctx, client.ObjectKeyFromObject(live), live)).To(Succeed())
		Expect(live.Spec.Egress).To(HaveLen(1))
	})

	It("repairs a selector that somebody narrowed", func(ctx context.Context) {
		boss := owner(ctx, "boss-6")
		live, rules := service("narrow"), policy("narrow")
		Expect(apply.Apply(ctx, api, service("narrow"), boss)).To(Succeed())
		Expect(apply.Apply(ctx, api, policy("narrow"), boss)).To(Succeed())
		Expect(api.Get(ctx, client.ObjectKeyFromObject(live), live)).To(Succeed())
		live.Spec.Selector["theirs"] = "none"
		Expect(api.Update(ctx, live, client.FieldOwner("somebody"))).To(Succeed())
		Expect(api.Get(ctx, client.ObjectKeyFromObject(rules), rules)).To(Succeed())
		rules.Spec.PodSelector.MatchLabels = map[string]string{"theirs": "none"}
		Expect(api.Update(ctx, rules, client.FieldOwner("somebody"))).To(Succeed())

		Expect(apply.Apply(ctx, api, service("narrow"), boss)).To(Succeed())
		Expect(apply.Apply(ctx, api, policy("narrow"), boss)).To(Succeed())
		Expect(api.Get(ctx, client.ObjectKeyFromObject(live), live)).To(Succeed())
		Expect(live.Spec.Selector).To(Equal(map[string]string{"app": "many"}))
		Expect(api.Get(ctx, client.ObjectKeyFromObject(rules), rules)).To(Succeed())
		Expect(rules.Spec.PodSelector.MatchLabels).To(BeEmpty())
	})

	It("creates a Job once, whatever is asked later", func(ctx context.Context) {
		boss := owner(ctx, "boss-5")
		created, err := apply.Create(ctx, api, job("once", "image:1"), boss)
		Expect(err).NotTo(HaveOccurred())
		Expect(created).To(BeTrue())
		again := job("once", "image:2")
		created, err = apply.Create(ctx, api, again, boss)
		Expect(err).NotTo(HaveOccurred())
		Expect(created).To(BeFalse())
		Expect(again.Spec.Template.Spec.Containers[0].Image).To(Equal("image:1"))
		Expect(apply.Delete(ctx, api, job("once", ""), boss)).To(Succeed())
	})
})

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }

func template(image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "many"}},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyAlways,
			Containers: []corev1.Container{{
				Name: "one", Image: image, Ports: []corev1.ContainerPort{{Name: "api", ContainerPort: 8080}},
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("1000m"), corev1.ResourceMemory: resource.MustParse("1024Mi"),
				}},
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
			}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		},
	}
}

func deployment(name string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: meta(name), Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "many"}}, Template: template("image:1"),
	}}
}

func service(name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: meta(name), Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": "many"},
		Ports:    []corev1.ServicePort{{Name: "api", Port: 80, TargetPort: intstr.FromString("api")}},
	}}
}

func policy(name string) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{ObjectMeta: meta(name), Spec: networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{}, PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
		Egress: []networkingv1.NetworkPolicyEgressRule{{To: []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}}}},
	}}
}

func job(name, image string) *batchv1.Job {
	spec := template(image)
	spec.Spec.RestartPolicy = corev1.RestartPolicyNever
	return &batchv1.Job{ObjectMeta: meta(name), Spec: batchv1.JobSpec{Template: spec}}
}
