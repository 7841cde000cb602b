package custom_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/millrace/millrace"
)

// createPanels creates panels p00, p01, … in v1. Every third is red.
func createPanels(t *testing.T, d dynamic.Interface, many int) (red []string) {
	t.Helper()
	for i := range many {
		u := panel("v1", fmt.Sprintf("p%02d", i), "color")
		if i%3 == 0 {
			red = append(red, u.GetName())
		} else {
			set(t, u, "blue", "spec", "color")
		}
		must(d.Resource(panels).Namespace("default").Create(t.Context(), u, metav1.CreateOptions{}))(t)
	}
	return red
}

func set(t *testing.T, u *unstructured.Unstructured, value any, path ...string) {
	t.Helper()
	must("", unstructured.SetNestedField(u.Object, value, path...))(t)
}

func named(list *unstructured.UnstructuredList) (names []string) {
	for _, u := range list.Items {
		names = append(names, u.GetName())
	}
	return names
}

func byField(selector string) metav1.ListOptions { return metav1.ListOptions{FieldSelector: selector} }

func TestListsAreSelectedByWhatTheWebhookShows(t *testing.T) {
	d := start(t)
	p := startConversionWebhook(t, d)
	one, two := d.Resource(panels).Namespace("default"), d.Resource(panels2).Namespace("default")
	const many = 30
	red := createPanels(t, d, many)
	all := named(must(one.List(t.Context(), metav1.ListOptions{}))(t))
	for _, c := range []struct {
		in   dynamic.ResourceInterface
		by   metav1.ListOptions
		want []string
	}{
		{two, byField("spec.colour=red"), red},
		{two, byField("spec.colour=red,spec.finish=matt"), nil},
		{two, byField("spec.finish=matt"), nil},
		{two, byField("spec.finish!=matt"), all},
		{two, byField("spec.colour=red,metadata.name=p03"), []string{"p03"}},
		{two, byField("spec.colour=blue,metadata.name=p03"), nil},
		{two, metav1.ListOptions{LabelSelector: "paint=red"}, red},
		{two, metav1.ListOptions{LabelSelector: "paint=blue", FieldSelector: "spec.colour=red"}, nil},
		{d.Resource(panels2), byField("spec.colour=red"), red},
		{one, byField("spec.color=red"), red},
		{one, metav1.ListOptions{LabelSelector: "paint=red"}, nil},
	} {
		if got := named(must(c.in.List(t.Context(), c.by))(t)); !slices.Equal(got, c.want) {
			t.Errorf("%v lists %v, want %v", c.by, got, c.want)
		}
	}
	if p.calls.Load() != 1 || p.objects.Load() != many {
		t.Errorf("%d objects were converted in %d calls", p.objects.Load(), p.calls.Load())
	}
	for in, field := range map[dynamic.ResourceInterface]string{one: "spec.colour", two: "spec.color"} {
		if _, err := in.List(t.Context(), byField(field+"=red")); !apierrors.IsBadRequest(err) {
			t.Errorf("by %s of the other version: %v", field, err)
		}
	}
}

func TestPagesAreSelectedByWhatTheWebhookShows(t *testing.T) {
	d := start(t)
	startConversionWebhook(t, d)
	red := createPanels(t, d, 30)
	var got []string
	o := metav1.ListOptions{FieldSelector: "spec.colour=red", Limit: 3}
	for page := 0; page == 0 || o.Continue != ""; page++ {
		list := must(d.Resource(panels2).Namespace("default").List(t.Context(), o))(t)
		if len(list.Items) == 0 || len(list.Items) > 3 || list.GetRemainingItemCount() != nil {
			t.Fatalf("page %d has %v, and more: %v", page, named(list), list.GetRemainingItemCount())
		}
		got, o.Continue = append(got, named(list)...), list.GetContinue()
	}
	if !slices.Equal(got, red) {
		t.Errorf("the pages have %v, want %v", got, red)
	}
}

func TestACollectionIsDeletedByWhatTheWebhookShows(t *testing.T) {
	d := start(t)
	startConversionWebhook(t, d)
	one, two := d.Resource(panels).Namespace("default"), d.Resource(panels2).Namespace("default")
	red := createPanels(t, d, 12)
	must("", two.DeleteCollection(t.Context(), metav1.DeleteOptions{}, byField("spec.colour=red")))(t)
	left := named(must(one.List(t.Context(), metav1.ListOptions{}))(t))
	if len(left) != 12-len(red) || slices.ContainsFunc(left, func(name string) bool { return slices.Contains(red, name) }) {
		t.Errorf("left are %v", left)
	}
}

// expect reads the next event and compares it.
func expect(t *testing.T, w watch.Interface, kind watch.EventType, name string, value any, path ...string) {
	t.Helper()
	e, ok := <-w.ResultChan()
	u, is := e.Object.(*unstructured.Unstructured)
	if !ok || !is || e.Type != kind || u.GetName() != name || at(u, path...) != value {
		t.Fatalf("watched %s %v, want %s of %s with %v", e.Type, e.Object, kind, name, value)
	}
}

// transitions makes an object enter and leave a selection in every way, and compares the watches' events.
func transitions(t *testing.T, in dynamic.ResourceInterface, field string, made *unstructured.Unstructured, watches ...watch.Interface) {
	t.Helper()
	name := made.GetName()
	all := func(kind watch.EventType, value any, path ...string) {
		t.Helper()
		for _, w := range watches {
			expect(t, w, kind, name, value, path...)
		}
	}
	write := func(value any, path ...string) {
		t.Helper()
		set(t, made, value, path...)
		made = must(in.Update(t.Context(), made, metav1.UpdateOptions{}))(t)
	}
	set(t, made, "blue", "spec", field)
	made = must(in.Create(t.Context(), made, metav1.CreateOptions{}))(t)
	write("red", "spec", field)
	all(watch.Added, "red", "spec", field)
	write(int64(7), "spec", "size")
	all(watch.Modified, int64(7), "spec", "size")
	write("blue", "spec", field)
	all(watch.Deleted, "red", "spec", field)
	write(int64(8), "spec", "size")
	write("red", "spec", field)
	all(watch.Added, int64(8), "spec", "size")
	must("", in.Delete(t.Context(), name, metav1.DeleteOptions{}))(t)
	all(watch.Deleted, "red", "spec", field)
}

func TestWatchesAreSelectedByWhatTheWebhookShows(t *testing.T) {
	t.Run("from the cache", func(t *testing.T) { watchesAreSelected(t, millrace.Options{}) })
	t.Run("from the store", func(t *testing.T) { watchesAreSelected(t, millrace.Options{Uncached: []string{"*"}}) })
}

func watchesAreSelected(t *testing.T, o millrace.Options) {
	d := startWith(t, o)
	p := startConversionWebhook(t, d)
	one, two := d.Resource(panels).Namespace("default"), d.Resource(panels2).Namespace("default")
	var watches []watch.Interface
	for range 5 {
		for _, o := range []metav1.ListOptions{byField("spec.colour=red"), {LabelSelector: "paint=red"}} {
			w := must(two.Watch(t.Context(), o))(t)
			defer w.Stop()
			watches = append(watches, w)
		}
	}
	stored := must(one.Watch(t.Context(), byField("spec.color=red")))(t)
	defer stored.Stop()
	transitions(t, two, "colour", panel("v2", "a", "colour"), watches...)
	expect(t, stored, watch.Added, "a", "red", "spec", "color")
	expect(t, stored, watch.Modified, "a", int64(7), "spec", "size")
	expect(t, stored, watch.Deleted, "a", "red", "spec", "color")

	before := p.objects.Load()
	must(one.Create(t.Context(), panel("v1", "b", "color"), metav1.CreateOptions{}))(t)
	for _, w := range watches {
		expect(t, w, watch.Added, "b", "red", "spec", "colour")
	}
	if n := p.objects.Load() - before; n != 1 {
		t.Errorf("%d watches had one object converted %d times", len(watches), n)
	}
}

func TestAWatchBeginsWithWhatTheWebhookShowsAsSelected(t *testing.T) {
	t.Run("from the cache", func(t *testing.T) { aWatchBeginsSelected(t, millrace.Options{}) })
	t.Run("from the store", func(t *testing.T) { aWatchBeginsSelected(t, millrace.Options{Uncached: []string{"*"}}) })
}

func aWatchBeginsSelected(t *testing.T, o millrace.Options) {
	d := startWith(t, o)
	p := startConversionWebhook(t, d)
	red := createPanels(t, d, 30)
	w := must(d.Resource(panels2).Namespace("default").Watch(t.Context(), metav1.ListOptions{
		FieldSelector: "spec.colour=red", SendInitialEvents: new(true), AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}))(t)
	defer w.Stop()
	for _, name := range red {
		expect(t, w, watch.Added, name, "red", "spec", "colour")
	}
	if e := <-w.ResultChan(); e.Type != watch.Bookmark {
		t.Errorf("the initial events go on with %v", e)
	}
	if p.calls.Load() != 1 {
		t.Errorf("they took %d calls", p.calls.Load())
	}
}

func TestAFailingWebhookFailsWhatIsSelectedByWhatItShows(t *testing.T) {
	d := start(t)
	p := startConversionWebhook(t, d)
	one, two := d.Resource(panels).Namespace("default"), d.Resource(panels2).Namespace("default")
	w := must(two.Watch(t.Context(), byField("spec.colour=red")))(t)
	defer w.Stop()
	must(one.Create(t.Context(), panel("v1", "a", "color"), metav1.CreateOptions{}))(t)
	expect(t, w, watch.Added, "a", "red", "spec", "colour")
	p.broken.Store(true)
	must(one.Create(t.Context(), panel("v1", "b", "color"), metav1.CreateOptions{}))(t)
	if e := <-w.ResultChan(); e.Type != watch.Error || !strings.Contains(fmt.Sprint(e.Object), "conversion webhook for paint.example.com/v1, Kind=Panel failed") {
		t.Errorf("watched %v", e)
	}
	plain, selected := second(two.List(t.Context(), metav1.ListOptions{})), second(two.List(t.Context(), byField("spec.colour=red")))
	if plain == nil || selected == nil || plain.Error() != selected.Error() || apierrors.ReasonForError(plain) != apierrors.ReasonForError(selected) {
		t.Errorf("a list without a selector fails with %v, one with a selector with %v", plain, selected)
	}
	if err := two.DeleteCollection(t.Context(), metav1.DeleteOptions{}, byField("spec.colour=red")); err == nil {
		t.Error("a collection was deleted that nobody could tell")
	}
	if got := named(must(one.List(t.Context(), byField("spec.color=red")))(t)); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("the stored version lists %v", got)
	}
}

func TestAVersionThatIsOnlyRelabelledHasSelectableFieldsOfItsOwn(t *testing.T) {
	const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: lamps.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: lamps, kind: Lamp}
  versions:
  - {name: v1, served: true, storage: true, selectableFields: [{jsonPath: .spec.color}], schema: {openAPIV3Schema: {
      type: object, properties: {spec: {type: object, properties: {color: {type: string}, size: {type: integer}}}}}}}
  - {name: v2, served: true, storage: false, selectableFields: [{jsonPath: .spec.color}, {jsonPath: .spec.size}], schema: {openAPIV3Schema: {
      type: object, properties: {spec: {type: object, properties: {color: {type: string}, size: {type: integer, minimum: 0}}}}}}}
`
	d := start(t)
	define(t, d, definition)
	lamps := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "lamps"}
	one, two := d.Resource(lamps).Namespace("default"), d.Resource(lamps.GroupResource().WithVersion("v2")).Namespace("default")
	lamp := func(version, name string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/" + version, "kind": "Lamp", "spec": map[string]any{"color": "blue", "size": int64(3)}}}
		u.SetName(name)
		return u
	}
	w := must(two.Watch(t.Context(), byField("spec.color=red")))(t)
	defer w.Stop()
	transitions(t, two, "color", lamp("v2", "a"), w)
	for i := range 5 {
		u := lamp("v1", fmt.Sprint("l", i))
		set(t, u, int64(i%2), "spec", "size")
		must(one.Create(t.Context(), u, metav1.CreateOptions{}))(t)
	}
	page := must(two.List(t.Context(), metav1.ListOptions{FieldSelector: "spec.size=0,spec.color=blue", Limit: 2}))(t)
	rest := must(two.List(t.Context(), metav1.ListOptions{FieldSelector: "spec.size=0,spec.color=blue", Limit: 2, Continue: page.GetContinue()}))(t)
	if got := append(named(page), named(rest)...); !slices.Equal(got, []string{"l0", "l2", "l4"}) {
		t.Errorf("the pages have %v", got)
	}
	if _, err := one.List(t.Context(), byField("spec.size=0")); !apierrors.IsBadRequest(err) {
		t.Errorf("by a field of the other version: %v", err)
	}
	must("", two.DeleteCollection(t.Context(), metav1.DeleteOptions{}, byField("spec.size=0")))(t)
	if got := named(must(one.List(t.Context(), metav1.ListOptions{}))(t)); !slices.Equal(got, []string{"l1", "l3"}) {
		t.Errorf("left are %v", got)
	}
}

func TestAChangeOfTheSelectableFieldsEndsOnlyWatchesByFieldsThatAreGone(t *testing.T) {
	t.Run("from the cache", func(t *testing.T) { selectableFieldsChange(t, millrace.Options{}) })
	t.Run("from the store", func(t *testing.T) { selectableFieldsChange(t, millrace.Options{Uncached: []string{"*"}}) })
}

func selectableFieldsChange(t *testing.T, o millrace.Options) {
	d := startWith(t, o)
	define(t, d, definition)
	in := d.Resource(tabs).Namespace("default")
	before := must(in.Create(t.Context(), tab("a", "{color: red, replicas: 3}"), metav1.CreateOptions{}))(t)
	watching := func(o metav1.ListOptions) watch.Interface {
		t.Helper()
		w := must(in.Watch(t.Context(), o))(t)
		t.Cleanup(w.Stop)
		return w
	}
	selectable := func(fields string) {
		t.Helper()
		patch := []byte(`[{"op":"add","path":"/spec/versions/0/selectableFields","value":[` + fields + `]}]`)
		must(d.Resource(definitions).Patch(t.Context(), "tabs.example.com", types.JSONPatchType, patch, metav1.PatchOptions{}))(t)
	}
	plain, byColor := watching(metav1.ListOptions{ResourceVersion: before.GetResourceVersion()}), watching(byField("spec.color=red"))
	expect(t, byColor, watch.Added, "a", "red", "spec", "color")

	selectable(`{"jsonPath":".spec.replicas"},{"jsonPath":".spec.color"}`)
	if got := named(must(in.List(t.Context(), byField("spec.replicas=3,spec.color=red")))(t)); !slices.Equal(got, []string{"a"}) {
		t.Errorf("by a field that is new, of an object that is older: %v", got)
	}
	byReplicas := watching(byField("spec.replicas=3"))
	expect(t, byReplicas, watch.Added, "a", int64(3), "spec", "replicas")
	set(t, before, int64(4), "spec", "replicas")
	must(in.Update(t.Context(), before, metav1.UpdateOptions{}))(t)
	expect(t, byReplicas, watch.Deleted, "a", int64(3), "spec", "replicas")
	expect(t, byColor, watch.Modified, "a", int64(4), "spec", "replicas")
	since := metav1.ListOptions{FieldSelector: "spec.replicas=3", ResourceVersion: before.GetResourceVersion()}
	expect(t, watching(since), watch.Deleted, "a", int64(3), "spec", "replicas")

	selectable(`{"jsonPath":".spec.replicas"}`)
	for e := range byColor.ResultChan() {
		t.Errorf("by a field that is gone: %v", e)
	}
	if _, err := in.List(t.Context(), byField("spec.color=red")); !apierrors.IsBadRequest(err) {
		t.Errorf("by a field that is gone: %v", err)
	}
	must(in.Create(t.Context(), tab("b", "{color: red, replicas: 3}"), metav1.CreateOptions{}))(t)
	expect(t, byReplicas, watch.Added, "b", int64(3), "spec", "replicas")
	expect(t, plain, watch.Modified, "a", int64(4), "spec", "replicas")
	expect(t, plain, watch.Added, "b", int64(3), "spec", "replicas")
}
