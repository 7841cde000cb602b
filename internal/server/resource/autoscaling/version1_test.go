package autoscaling

import (
	"encoding/json"
	"slices"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/millrace/millrace/internal/server/resource/resourcetest"
)

func read[T any](t *testing.T, text string) *T {
	t.Helper()
	o := new(T)
	if err := json.Unmarshal([]byte(text), o); err != nil {
		t.Fatal(err)
	}
	return o
}

const full = `{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h", "annotations": {"mine": "1"}},
	"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}, "minReplicas": 2, "maxReplicas": 9,
		"behavior": {"scaleUp": {"stabilizationWindowSeconds": 5, "selectPolicy": "Min", "policies": [{"type": "Pods", "value": 1, "periodSeconds": 2}]}},
		"metrics": [
			{"type": "Object", "object": {"describedObject": {"kind": "Service", "name": "s"}, "metric": {"name": "m"}, "target": {"type": "Value", "value": "5"}}},
			{"type": "Pods", "pods": {"metric": {"name": "m", "selector": {"matchLabels": {"a": "b"}}}, "target": {"type": "AverageValue", "averageValue": "5"}}},
			{"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
			{"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c", "target": {"type": "Utilization", "averageUtilization": 5}}},
			{"type": "External", "external": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "5"}}},
			{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]},
	"status": {"currentReplicas": 3, "desiredReplicas": 4,
		"currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 40, "averageValue": "100m"}}}],
		"conditions": [{"type": "AbleToScale", "status": "True", "reason": "R"}]}}`

func TestVersion1CarriesEverythingThereAndBack(t *testing.T) {
	a := read[autoscalingv2.HorizontalPodAutoscaler](t, full)
	v1 := toVersion1(a)
	if v1.APIVersion != "autoscaling/v1" || *v1.Spec.TargetCPUUtilizationPercentage != 50 || *v1.Status.CurrentCPUUtilizationPercentage != 40 {
		t.Errorf("got %+v", v1)
	}
	if len(v1.Annotations) != 5 || len(a.Annotations) != 1 {
		t.Errorf("annotations %v, of the original %v", v1.Annotations, a.Annotations)
	}
	text, err := json.Marshal(v1)
	if err != nil {
		t.Fatal(err)
	}
	back := fromVersion1(read[autoscalingv1.HorizontalPodAutoscaler](t, string(text)))
	if !equality.Semantic.DeepEqual(a, back) {
		want, _ := json.Marshal(a)
		got, _ := json.Marshal(back)
		t.Errorf("want %s\ngot  %s", want, got)
	}
}

func TestVersion1NeedsNoAnnotations(t *testing.T) {
	k := HorizontalPodAutoscalers()
	o, err := resourcetest.Decode(k.Faces[1], []byte(`{"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h", "namespace": "n"},
		"spec": {"scaleTargetRef": {"kind": "ReplicationController", "name": "rc", "apiVersion": "v1"}, "maxReplicas": 3}}`))
	if err != nil {
		t.Fatal(err)
	}
	if errs := resourcetest.Create(k.Faces[1], o); len(errs) > 0 {
		t.Fatal(errs)
	}
	v1 := toVersion1(o.(*autoscalingv2.HorizontalPodAutoscaler))
	if *v1.Spec.TargetCPUUtilizationPercentage != 80 || *v1.Spec.MinReplicas != 1 || v1.Annotations != nil {
		t.Errorf("got %+v", v1)
	}
}

func TestBehaviorsAreCompleted(t *testing.T) {
	a := read[autoscalingv2.HorizontalPodAutoscaler](t, `{"spec": {"maxReplicas": 3, "behavior": {"scaleDown": {"selectPolicy": "Disabled"}}}}`)
	defaultAutoscaler(a)
	got, err := json.Marshal(a.Spec.Behavior)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"scaleUp":{"stabilizationWindowSeconds":0,"selectPolicy":"Max","policies":[{"type":"Pods","value":4,"periodSeconds":15},{"type":"Percent","value":100,"periodSeconds":15}]},` +
		`"scaleDown":{"selectPolicy":"Disabled","policies":[{"type":"Percent","value":100,"periodSeconds":15}]}}`
	if string(got) != want {
		t.Errorf("want %s\ngot  %s", want, got)
	}
}

func TestAutoscalersAreRefusedInKubernetesWords(t *testing.T) {
	k := HorizontalPodAutoscalers()
	const ref = `"scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}, "maxReplicas": 3`
	for spec, want := range map[string][]string{
		ref: nil,
		ref + `, "minReplicas": 0`: {"FieldValueInvalid spec.minReplicas: Invalid value: 0: must be greater than or equal to 1",
			"FieldValueForbidden spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero replicas"},
		ref + `, "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}]`: {
			"FieldValueRequired spec.metrics[0].resource.target.averageUtilization: Required value: must set either a target raw value or a target utilization"},
		ref + `, "metrics": [{"type": "Pods", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 5}}}]`: {
			"FieldValueRequired spec.metrics[0].pods: Required value: must populate information for the given metric source"},
		ref + `, "behavior": {"scaleUp": {"stabilizationWindowSeconds": 3601, "policies": [{"type": "Pods", "value": 0, "periodSeconds": 1801}]}}`: {
			"FieldValueInvalid spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to 3600",
			"FieldValueInvalid spec.behavior.scaleUp.policies[0].value: Invalid value: 0: must be greater than zero",
			"FieldValueInvalid spec.behavior.scaleUp.policies[0].periodSeconds: Invalid value: 1801: must be less than or equal to 1800",
		},
	} {
		o, err := resourcetest.Decode(k.Faces[0], []byte(`{"metadata": {"name": "h", "namespace": "n"}, "spec": {`+spec+`}}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := resourcetest.Causes(resourcetest.Create(k.Faces[0], o)); !slices.Equal(got, want) {
			t.Errorf("%s\nwant %q\ngot  %q", spec, want, got)
		}
	}
}

func TestTargetsAreShownTwoAtMost(t *testing.T) {
	a := read[autoscalingv2.HorizontalPodAutoscaler](t, full)
	if got, want := targets(a), "<unknown>/5, <unknown>/5 + 4 more..."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	a.Spec.Metrics = a.Spec.Metrics[5:]
	if got, want := targets(a), "cpu: 40%/50%"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
