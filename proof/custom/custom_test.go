package custom_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/millracetest"
)

const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: tabs.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: tabs, kind: Tab, shortNames: [tb], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.selector}
    selectableFields: [{jsonPath: .spec.color}]
    additionalPrinterColumns:
    - {name: Color, type: string, jsonPath: .spec.color}
    - {name: Replicas, type: integer, jsonPath: .spec.replicas}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [color]
            x-kubernetes-validations:
            - {rule: "self.color != 'grey' || self.replicas < 3", message: "grey tabs are few"}
            properties:
              color: {type: string, enum: [red, green, grey]}
              replicas: {type: integer, default: 1, minimum: 0}
              size: {x-kubernetes-int-or-string: true}
              ports:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items:
                  type: object
                  required: [name]
                  properties: {name: {type: string}, port: {type: integer}}
          status:
            type: object
            properties: {replicas: {type: integer}, selector: {type: string}, note: {type: string}}
  - name: v1beta1
    served: true
    storage: false
    schema:
      openAPIV3Schema:
        type: object
        x-kubernetes-preserve-unknown-fields: true
`

var (
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	tabs        = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "tabs"}
)

func parse(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

func start(t *testing.T) dynamic.Interface {
	t.Helper()
	return startWith(t, millrace.Options{})
}

// startWith is start with other options of the API server.
func startWith(t *testing.T, o millrace.Options) dynamic.Interface {
	t.Helper()
	o.Nodes, o.Controllers = -1, []string{}
	c := millracetest.Start(t, o)
	d, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// define creates a definition and returns when it is Established.
func define(t *testing.T, d dynamic.Interface, text string) *unstructured.Unstructured {
	t.Helper()
	made := must(d.Resource(definitions).Create(t.Context(), parse(t, text), metav1.CreateOptions{}))(t)
	return await(t, d, made, func(u *unstructured.Unstructured) bool { return condition(u, "Established") == "True" })
}

// await watches a definition until a condition holds.
func await(t *testing.T, d dynamic.Interface, u *unstructured.Unstructured, holds func(*unstructured.Unstructured) bool) *unstructured.Unstructured {
	t.Helper()
	w := must(d.Resource(definitions).Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + u.GetName(), ResourceVersion: u.GetResourceVersion()}))(t)
	defer w.Stop()
	for e := range w.ResultChan() {
		now, ok := e.Object.(*unstructured.Unstructured)
		if !ok {
			t.Fatalf("%v", e)
		}
		if e.Type == watch.Deleted || holds(now) {
			return now
		}
	}
	t.Fatal("the watch ended")
	return nil
}

func condition(u *unstructured.Unstructured, kind string) string {
	all, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range all {
		if c := c.(map[string]any); c["type"] == kind {
			return c["status"].(string)
		}
	}
	return ""
}

func tab(name, spec string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte("{apiVersion: example.com/v1, kind: Tab, metadata: {name: "+name+"}, spec: "+spec+"}"), &u.Object); err != nil {
		panic(err)
	}
	return u
}

func at(u *unstructured.Unstructured, path ...string) any {
	v, _, _ := unstructured.NestedFieldNoCopy(u.Object, path...)
	return v
}

func TestWhatIsEstablishedIsServed(t *testing.T) {
	d := start(t)
	define(t, d, definition)
	n := d.Resource(tabs).Namespace("default")
	made := must(n.Create(t.Context(), tab("a", "{color: red, size: 5, unknown: 1}"), metav1.CreateOptions{FieldValidation: "Ignore"}))(t)
	if at(made, "spec", "replicas") != int64(1) || at(made, "spec", "unknown") != nil || made.GetGeneration() != 1 || made.GetUID() == "" {
		t.Errorf("created as %v", made.Object)
	}
	got := must(n.Get(t.Context(), "a", metav1.GetOptions{}))(t)
	if got.GetResourceVersion() != made.GetResourceVersion() || at(got, "spec", "color") != "red" || got.GetKind() != "Tab" {
		t.Errorf("got %v", got.Object)
	}
	if list := must(n.List(t.Context(), metav1.ListOptions{FieldSelector: "spec.color=red"}))(t); len(list.Items) != 1 || list.Items[0].GetKind() != "Tab" || list.GetKind() != "TabList" {
		t.Errorf("listed %v", list)
	}
	if list := must(n.List(t.Context(), metav1.ListOptions{FieldSelector: "spec.color=green"}))(t); len(list.Items) != 0 {
		t.Errorf("listed %v", list)
	}
	other := must(d.Resource(tabs.GroupResource().WithVersion("v1beta1")).Namespace("default").Get(t.Context(), "a", metav1.GetOptions{}))(t)
	if other.GetAPIVersion() != "example.com/v1beta1" || at(other, "spec", "color") != "red" {
		t.Errorf("in the other version %v", other.Object)
	}
}

func TestTheServerOwnsTheStatusOfADefinitionAndNothingElse(t *testing.T) {
	d := start(t)
	owners := map[string]string{}
	for _, e := range define(t, d, definition).GetManagedFields() {
		owners[e.Manager+" "+e.Subresource] = e.FieldsV1.GetRawString()
	}
	server := owners["kube-apiserver status"]
	if len(owners) != 2 || !strings.HasPrefix(server, `{"f:status":{"f:acceptedNames":`) || !strings.Contains(server, `k:{\"type\":\"Established\"}`) {
		t.Errorf("owners: %v", owners)
	}
	delete(owners, "kube-apiserver status")
	for _, creator := range owners {
		if !strings.Contains(creator, `"f:versions"`) || strings.Contains(creator, "f:status") {
			t.Errorf("the creator owns %s", creator)
		}
	}
}

func TestObjectsThatTheSchemaForbidsAreRefused(t *testing.T) {
	d := start(t)
	define(t, d, definition)
	n := d.Resource(tabs).Namespace("default")
	for spec, want := range map[string]string{
		"{color: blue}":                               `spec.color: Unsupported value: "blue": supported values: "red", "green", "grey"`,
		"{replicas: 2}":                               "spec.color: Required value",
		"{color: grey, replicas: 4}":                  `spec: Invalid value: grey tabs are few`,
		"{color: red, replicas: -1}":                  "spec.replicas: Invalid value: -1: spec.replicas in body should be greater than or equal to 0",
		"{color: red, size: []}":                      "spec.size",
		"{color: red, unknown: 1}":                    `strict decoding error: unknown field "spec.unknown"`,
		"{color: red, ports: [{port: 1}]}":            "spec.ports[0].name: Required value",
		"{color: red, ports: [{name: a}, {name: a}]}": `spec.ports[1]: Duplicate value: {"name":"a"}`,
	} {
		_, err := n.Create(t.Context(), tab("a", spec), metav1.CreateOptions{FieldValidation: "Strict"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", spec, err, want)
		}
	}
}

func TestStatusAndScaleAreWrittenApart(t *testing.T) {
	d := start(t)
	define(t, d, definition)
	n := d.Resource(tabs).Namespace("default")
	made := must(n.Create(t.Context(), tab("a", "{color: red}"), metav1.CreateOptions{}))(t)
	both := made.DeepCopy()
	both.Object["status"] = map[string]any{"note": "set"}
	must("", unstructured.SetNestedField(both.Object, "green", "spec", "color"))(t)
	status := must(n.UpdateStatus(t.Context(), both, metav1.UpdateOptions{}))(t)
	if at(status, "spec", "color") != "red" || at(status, "status", "note") != "set" || status.GetGeneration() != 1 {
		t.Errorf("through the status %v", status.Object)
	}
	patched := must(n.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"spec":{"color":"green"},"status":{"note":"other"}}`), metav1.PatchOptions{}))(t)
	if at(patched, "spec", "color") != "green" || at(patched, "status", "note") != "set" || patched.GetGeneration() != 2 {
		t.Errorf("patched %v", patched.Object)
	}
	scaled := must(n.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"spec":{"replicas":7}}`), metav1.PatchOptions{}, "scale"))(t)
	if at(scaled, "spec", "replicas") != int64(7) || scaled.GetKind() != "Scale" {
		t.Errorf("scaled %v", scaled.Object)
	}
	if got := must(n.Get(t.Context(), "a", metav1.GetOptions{}))(t); at(got, "spec", "replicas") != int64(7) {
		t.Errorf("got %v", got.Object)
	}
	_, err := n.Patch(t.Context(), "a", types.StrategicMergePatchType, []byte(`{}`), metav1.PatchOptions{})
	if !apierrors.IsUnsupportedMediaType(err) {
		t.Errorf("a strategic merge patch: %v", err)
	}
}

func TestADeletedDefinitionTakesItsObjectsAlong(t *testing.T) {
	d := start(t)
	made := define(t, d, definition)
	n := d.Resource(tabs).Namespace("default")
	must(n.Create(t.Context(), tab("a", "{color: red}"), metav1.CreateOptions{}))(t)
	if err := d.Resource(definitions).Delete(t.Context(), made.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, d, made, func(*unstructured.Unstructured) bool { return false })
	if _, err := n.List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("what is no longer defined is served: %v", err)
	}
	define(t, d, definition)
	if list := must(n.List(t.Context(), metav1.ListOptions{}))(t); len(list.Items) != 0 {
		t.Errorf("objects have outlived their definition: %v", list.Items)
	}
}

func TestOnlyWatchesEndWhoseMeaningChanges(t *testing.T) {
	d := start(t)
	define(t, d, definition)
	n := d.Resource(tabs).Namespace("default")
	w := must(n.Watch(t.Context(), metav1.ListOptions{}))(t)
	defer w.Stop()
	patch := func(text string) {
		t.Helper()
		must(d.Resource(definitions).Patch(t.Context(), "tabs.example.com", types.JSONPatchType, []byte(text), metav1.PatchOptions{}))(t)
	}
	const props = `/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/`
	patch(`[{"op":"add","path":"` + props + `color/description","value":"of the tab"},{"op":"add","path":"` + props + `color/enum/-","value":"blue"}]`)
	must(n.Create(t.Context(), tab("a", "{color: blue}"), metav1.CreateOptions{}))(t)
	if e, open := <-w.ResultChan(); !open || e.Type != watch.Added {
		t.Fatalf("a watch did not outlive a change of the validation: %v", e)
	}
	patch(`[{"op":"add","path":"` + props + `size/default","value":3}]`)
	for e := range w.ResultChan() {
		t.Errorf("after the change: %v", e)
	}
	if got := must(n.Get(t.Context(), "a", metav1.GetOptions{}))(t); at(got, "spec", "size") != int64(3) {
		t.Errorf("a stored object has not got the new default: %v", got.Object)
	}
}

func TestNamesThatCollideWaitUntilTheyAreFree(t *testing.T) {
	d := start(t)
	first := define(t, d, definition)
	second := must(d.Resource(definitions).Create(t.Context(), parse(t, strings.NewReplacer("tabs", "knobs", "[tb]", "[kn]").Replace(definition)), metav1.CreateOptions{}))(t)
	refused := await(t, d, second, func(u *unstructured.Unstructured) bool { return condition(u, "NamesAccepted") != "" })
	if condition(refused, "NamesAccepted") != "False" || condition(refused, "Established") != "False" {
		t.Fatalf("conditions %v", at(refused, "status", "conditions"))
	}
	if err := d.Resource(definitions).Delete(t.Context(), first.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, d, refused, func(u *unstructured.Unstructured) bool { return condition(u, "Established") == "True" })
}

func TestApplyMergesAsTheSchemaSays(t *testing.T) {
	d := start(t)
	made := must(d.Resource(definitions).Apply(t.Context(), "tabs.example.com", parse(t, definition), metav1.ApplyOptions{FieldManager: "installer"}))(t)
	await(t, d, made, func(u *unstructured.Unstructured) bool { return condition(u, "Established") == "True" })
	n := d.Resource(tabs).Namespace("default")
	apply := func(manager, spec string) (*unstructured.Unstructured, error) {
		return n.Apply(t.Context(), "a", tab("a", spec), metav1.ApplyOptions{FieldManager: manager})
	}
	must(apply("one", "{color: red, ports: [{name: web, port: 80}]}"))(t)
	both := must(apply("two", "{color: red, ports: [{name: admin, port: 81}]}"))(t)
	if ports := at(both, "spec", "ports").([]any); len(ports) != 2 || len(both.GetManagedFields()) != 2 {
		t.Errorf("applied by two: %v", both.Object)
	}
	if _, err := apply("two", "{color: green}"); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `conflict with "one": .spec.color`) {
		t.Errorf("a field of another: %v", err)
	}
	left := must(apply("one", "{color: red}"))(t)
	if ports := at(left, "spec", "ports").([]any); len(ports) != 1 {
		t.Errorf("what is no longer applied stays: %v", ports)
	}
	old := must(d.Resource(tabs.GroupResource().WithVersion("v1beta1")).Namespace("default").Patch(t.Context(), "a", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"by":"other"}}}`), metav1.PatchOptions{FieldManager: "three"}))(t)
	if len(old.GetManagedFields()) != 3 {
		t.Errorf("after a change in the other version: %v", old.GetManagedFields())
	}
	if _, err := apply("one", "{color: red, nothing: 1}"); err == nil || !strings.Contains(err.Error(), ".spec.nothing: field not declared in schema") {
		t.Errorf("an unknown field: %v", err)
	}
}

func TestNothingIsCreatedWhileTheDefinitionEnds(t *testing.T) {
	d := start(t)
	made := define(t, d, definition)
	n := d.Resource(tabs).Namespace("default")
	held := tab("held", "{color: red}")
	held.SetFinalizers([]string{"example.com/hold"})
	must(n.Create(t.Context(), held, metav1.CreateOptions{}))(t)
	if err := d.Resource(definitions).Delete(t.Context(), made.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, d, made, func(u *unstructured.Unstructured) bool { return condition(u, "Terminating") == "True" })
	_, err := n.Create(t.Context(), tab("b", "{color: red}"), metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "create not allowed while custom resource definition is terminating") {
		t.Errorf("a create: %v", err)
	}
	must(n.Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}))(t)
	await(t, d, made, func(*unstructured.Unstructured) bool { return false })
}

func TestAnotherDeleteOfATerminatingDefinitionSaysThatThereIsNoGracePeriod(t *testing.T) {
	d := start(t)
	made := define(t, d, definition)
	held := tab("held", "{color: red}")
	held.SetFinalizers([]string{"example.com/hold"})
	must(d.Resource(tabs).Namespace("default").Create(t.Context(), held, metav1.CreateOptions{}))(t)
	remove := func() *int64 {
		must("", d.Resource(definitions).Delete(t.Context(), made.GetName(), metav1.DeleteOptions{}))(t)
		return must(d.Resource(definitions).Get(t.Context(), made.GetName(), metav1.GetOptions{}))(t).GetDeletionGracePeriodSeconds()
	}
	if grace := remove(); grace != nil {
		t.Errorf("after the first delete the grace period is %d", *grace)
	}
	for range 2 {
		if grace := remove(); grace == nil || *grace != 0 {
			t.Errorf("after another delete the grace period is %v", grace)
		}
	}
	must(d.Resource(tabs).Namespace("default").Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}))(t)
	gone := await(t, d, made, func(u *unstructured.Unstructured) bool { return false })
	if gone.GetName() != made.GetName() {
		t.Errorf("%v", gone)
	}
}
