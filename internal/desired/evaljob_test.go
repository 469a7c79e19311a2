package desired

import (
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.dev/quarry/api/v1alpha1"
)

func evalInput() EvalInput {
	jobs := jobsInput()
	baseline := jobs.Index.DeepCopy()
	baseline.Name = "support-acme-00aa11bb22"
	return EvalInput{
		Run:      &v1alpha1.EvalRun{ObjectMeta: metav1.ObjectMeta{Namespace: "rag", Name: "support-acme-7f9c4d0011-e1"}},
		Pipeline: jobs.Pipeline, Corpus: jobs.Corpus, Index: jobs.Index, Baseline: baseline,
		Config: []byte("{}"), Plan: []byte("{}"), EvalSet: []byte("{}"),
	}
}

// The evaluation reads what the last sync published, so it neither needs nor gets a way to the source.
func TestTheEvalJobSeesNoSource(t *testing.T) {
	in := evalInput()
	in.Corpus.Spec.Source.S3.Endpoint = "http://elsewhere.svc:9999"
	for _, obj := range Eval(in) {
		switch o := obj.(type) {
		case *batchv1.Job:
			var secrets []string
			for _, volume := range o.Spec.Template.Spec.Volumes {
				if volume.Secret != nil {
					secrets = append(secrets, volume.Secret.SecretName)
				}
			}
			if want := []string{"acme-write", PartName(in.Index.Name, EvalPart), PartName(in.Baseline.Name, EvalPart)}; !slices.Equal(secrets, want) {
				t.Errorf("the Job mounts %v, not %v", secrets, want)
			}
		case *networkingv1.NetworkPolicy:
			for _, rule := range o.Spec.Egress {
				for _, port := range rule.Ports {
					if port.Port.IntValue() == 9999 {
						t.Error("the Job may reach the source")
					}
				}
			}
		}
	}
}
