package apps

import (
	"encoding/json"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/resourcetest"
)

const template = `"selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "app:1"}]}}`

// made returns an object with this spec, as a create leaves it.
func made(t *testing.T, k *resource.Kind, spec string) resource.Object {
	t.Helper()
	o, err := resourcetest.Decode(k.Faces[0], []byte(`{"metadata": {"name": "x", "namespace": "n"}, "spec": {`+spec+`}}`))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestSetsAreRefusedInKubernetesWords(t *testing.T) {
	for _, c := range []struct {
		kind *resource.Kind
		spec string
		want []string
	}{
		{ReplicaSets(), template, nil},
		{ReplicaSets(), `"replicas": -1, ` + template, []string{"FieldValueInvalid spec.replicas: Invalid value: -1: must be greater than or equal to 0"}},
		{ReplicaSets(), `"selector": {}, "template": {"spec": {"containers": [{"name": "a", "image": "x"}]}}`,
			[]string{"FieldValueInvalid spec.selector: Invalid value: {}: empty selector is invalid for deployment"}},
		{Deployments(), `"minReadySeconds": 700, ` + template,
			[]string{"FieldValueInvalid spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds"}},
		{Deployments(), `"strategy": {"rollingUpdate": {"maxUnavailable": "101%"}}, ` + template,
			[]string{`FieldValueInvalid spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%`}},
		{DaemonSets(), `"updateStrategy": {"rollingUpdate": {"maxSurge": 1}}, ` + template,
			[]string{"FieldValueInvalid spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero"}},
		{DaemonSets(), `"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}, ` + template,
			[]string{"FieldValueRequired spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"}},
		{DaemonSets(), `"updateStrategy": {"type": "X"}, ` + template,
			[]string{`FieldValueNotSupported spec.updateStrategy: Unsupported value: {"Type":"X","RollingUpdate":null}: supported values: "RollingUpdate", "OnDelete"`}},
		{StatefulSets(), template, nil},
		{StatefulSets(), `"podManagementPolicy": "X", ` + template,
			[]string{`FieldValueInvalid spec.podManagementPolicy: Invalid value: "X": must be 'OrderedReady' or 'Parallel'`}},
		{StatefulSets(), `"volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}], ` + template,
			[]string{"FieldValueRequired spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required"}},
		{StatefulSets(), `"volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}], ` +
			`"selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "app:1", "volumeMounts": [{"name": "d", "mountPath": "/d"}]}]}}`, nil},
		{StatefulSets(), `"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Keep"}, ` + template,
			[]string{`FieldValueNotSupported spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: "Keep": supported values: "Retain", "Delete"`}},
	} {
		got := resourcetest.Causes(resourcetest.Create(c.kind.Faces[0], made(t, c.kind, c.spec)))
		if !slices.Equal(got, c.want) {
			t.Errorf("%s %s\nwant %q\ngot  %q", c.kind.Kind, c.spec, c.want, got)
		}
	}
}

func TestSelectorsNeverChange(t *testing.T) {
	other := `"selector": {"matchLabels": {"app": "x"}}, "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "main", "image": "app:1"}]}}`
	for _, k := range []*resource.Kind{Deployments(), ReplicaSets(), DaemonSets()} {
		got := resourcetest.Causes(resourcetest.Update(k, k.Main, made(t, k, other), made(t, k, template)))
		want := []string{`FieldValueInvalid spec.selector: Invalid value: {"matchLabels":{"app":"x"}}: field is immutable`}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q", k.Kind, got)
		}
	}
	k := StatefulSets()
	got := resourcetest.Causes(resourcetest.Update(k, k.Main, made(t, k, other), made(t, k, template)))
	want := []string{"FieldValueForbidden spec: Forbidden: " + mutableOfStatefulSets}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestDaemonSetsCountTheirTemplates(t *testing.T) {
	k := DaemonSets()
	old := made(t, k, template).(*appsv1.DaemonSet)
	if errs := resourcetest.Create(k.Faces[0], old); len(errs) > 0 {
		t.Fatal(errs)
	}
	same := old.DeepCopy()
	same.Annotations = nil
	resourcetest.Update(k, k.Main, same, old)
	other := old.DeepCopy()
	other.Spec.Template.Spec.Containers[0].Image = "app:2"
	resourcetest.Update(k, k.Main, other, old)
	if a, b := same.Annotations[templateGeneration], other.Annotations[templateGeneration]; a != "1" || b != "2" {
		t.Errorf("unchanged %s, changed %s", a, b)
	}
}

func TestDeploymentsCountAnnotationsAsChanges(t *testing.T) {
	k := Deployments()
	old := made(t, k, template).(*appsv1.Deployment)
	d := old.DeepCopy()
	d.Labels = map[string]string{"a": "b"}
	if k.Changed(d, old) {
		t.Error("a label is no change")
	}
	d.Annotations = map[string]string{"a": "b"}
	if !k.Changed(d, old) {
		t.Error("an annotation is a change")
	}
}

func TestStatusMustAddUp(t *testing.T) {
	k := Deployments()
	old := made(t, k, template).(*appsv1.Deployment)
	d := old.DeepCopy()
	d.Status = appsv1.DeploymentStatus{Replicas: 1, ReadyReplicas: 2, AvailableReplicas: 3, ObservedGeneration: -1}
	got := resourcetest.Causes(resourcetest.Update(k, k.Views["status"], d, old))
	want := []string{
		"FieldValueInvalid status.observedGeneration: Invalid value: -1: must be greater than or equal to 0",
		"FieldValueInvalid status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
		"FieldValueInvalid status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas",
		"FieldValueInvalid status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas",
	}
	if !slices.Equal(got, want) {
		t.Errorf("want %q\ngot  %q", want, got)
	}
}

func TestClaimTemplatesSayWhatTheyAreAfterTheStore(t *testing.T) {
	k := StatefulSets()
	set := made(t, k, `"volumeClaimTemplates": [{"metadata": {"name": "d"}}], `+template)
	stored, err := k.Encode(t.Context(), set)
	if err != nil {
		t.Fatal(err)
	}
	back, err := k.Decode(t.Context(), stored, "1")
	if err != nil {
		t.Fatal(err)
	}
	if c := back.(*appsv1.StatefulSet).Spec.VolumeClaimTemplates[0]; c.Kind != "PersistentVolumeClaim" || c.APIVersion != "v1" {
		t.Errorf("got %v", c.TypeMeta)
	}
}

func TestRevisionsNeverChangeTheirData(t *testing.T) {
	k := ControllerRevisions()
	var old, r appsv1.ControllerRevision
	for text, o := range map[string]*appsv1.ControllerRevision{`{"data": {"a": 1}}`: &old, `{"data": {"a": 2}, "revision": -1}`: &r} {
		if err := json.Unmarshal([]byte(text), o); err != nil {
			t.Fatal(err)
		}
	}
	got := resourcetest.Causes(resourcetest.Update(k, k.Main, &r, &old))
	want := []string{
		"FieldValueInvalid revision: Invalid value: -1: must be greater than or equal to 0",
		`FieldValueInvalid data: Invalid value: {"a":2}: field is immutable`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	owned := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web", Controller: new(true)}}}}
	if cell := k.Row(owned).Cells[1]; cell != "statefulset.apps/web" {
		t.Errorf("controller is %v", cell)
	}
}
