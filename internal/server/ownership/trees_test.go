package ownership

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/randomly"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/tree"
)

// customKind is a custom kind whose objects look like a schema says.
func customKind(t testing.TB, properties map[string]spec.Schema) *resource.Kind {
	t.Helper()
	text := *spec.StringProperty()
	set := *spec.ArrayProperty(&text)
	set.AddExtension("x-kubernetes-list-type", "set")
	owner := object(map[string]spec.Schema{"uid": text, "name": text, "kind": text, "apiVersion": text})
	owner.AddExtension("x-kubernetes-map-type", "atomic")
	entry := object(nil)
	entry.AddExtension("x-kubernetes-preserve-unknown-fields", true)
	meta := object(map[string]spec.Schema{
		"name": text, "namespace": text, "uid": text, "generation": *spec.Int64Property(), "creationTimestamp": text, "resourceVersion": text,
		"labels": *spec.MapProperty(&text), "annotations": *spec.MapProperty(&text), "finalizers": set,
		"ownerReferences": listBy(&owner, "uid"), "managedFields": *spec.ArrayProperty(&entry),
	})
	properties["apiVersion"], properties["kind"] = text, text
	properties["metadata"] = *spec.RefSchema("#/components/schemas/meta")
	root := object(properties)
	root.AddExtension("x-kubernetes-group-version-kind", []any{map[string]any{"group": "example.com", "version": "v1", "kind": "Thing"}})
	const preserveUnknown = false
	topology, err := managedfields.NewTypeConverter(map[string]*spec.Schema{"meta": &meta, "thing": &root}, preserveUnknown)
	if err != nil {
		t.Fatal(err)
	}
	k := &resource.Kind{
		Identity: &resource.Identity{Group: "example.com", Resource: "things", Namespaced: true, Custom: true, Stored: resource.StoredJSON},
		Version:  "v1", Kind: "Thing", Default: func(resource.Object) {}, Views: map[string]*resource.RuleSet{"status": {}},
		Topology: func() (managedfields.TypeConverter, error) { return topology, nil },
	}
	k.Representation = tree.New(tree.Options{Identity: k.Identity, Version: "v1", Storage: "v1", Kind: "Thing"})
	k.Faces = []*resource.Face{resource.OwnFace(k, func() runtime.Object { return k.New() })}
	return k
}

func object(properties map[string]spec.Schema) spec.Schema {
	return spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}, Properties: properties}}
}

func listBy(items *spec.Schema, keys ...any) spec.Schema {
	s := *spec.ArrayProperty(items)
	s.AddExtension("x-kubernetes-list-type", "map")
	s.AddExtension("x-kubernetes-list-map-keys", keys)
	return s
}

// gardener makes schemas, and trees that they let grow.
type gardener struct {
	*rand.Rand
	strange bool
}

func (g *gardener) schema(depth int) spec.Schema {
	text, number := *spec.StringProperty(), *spec.Int64Property()
	kinds := 12
	if depth > 3 {
		kinds = 5
	}
	switch g.IntN(kinds) {
	case 0:
		return number
	case 1:
		return *spec.BooleanProperty()
	case 2:
		return *spec.Float64Property()
	case 3:
		s := spec.Schema{}
		s.AddExtension("x-kubernetes-int-or-string", true)
		return s
	case 5:
		inner := g.schema(depth + 1)
		return *spec.MapProperty(&inner)
	case 6:
		s := object(nil)
		s.AddExtension("x-kubernetes-preserve-unknown-fields", true)
		return s
	case 7:
		inner := g.schema(depth + 1)
		return *spec.ArrayProperty(&inner)
	case 8:
		s := *spec.ArrayProperty(&text)
		s.AddExtension("x-kubernetes-list-type", "set")
		return s
	case 9:
		inner := object(map[string]spec.Schema{"name": text, "x": g.schema(depth + 1), "y": g.schema(depth + 1)})
		return listBy(&inner, "name")
	case 10:
		inner := object(map[string]spec.Schema{"port": number, "name": text, "z": g.schema(depth + 1)})
		return listBy(&inner, "port", "name")
	case 11, 12:
		s := object(map[string]spec.Schema{})
		for range 1 + g.IntN(4) {
			s.Properties[fmt.Sprint("p", g.IntN(6))] = g.schema(depth + 1)
		}
		if g.IntN(5) == 0 {
			s.AddExtension("x-kubernetes-map-type", "atomic")
		}
		return s
	}
	return text
}

func (g *gardener) value(s spec.Schema) any {
	if g.strange && g.IntN(40) == 0 {
		return []any{nil, "other", int64(5), map[string]any{"odd <name>": "x"}, []any{"a", "a"}, map[string]any{}}[g.IntN(6)]
	}
	if _, either := s.Extensions["x-kubernetes-int-or-string"]; either {
		return []any{"a", int64(1)}[g.IntN(2)]
	}
	switch s.Type[0] {
	case "integer":
		return int64(g.IntN(3))
	case "number":
		return []any{int64(1), 1.5, 2.5}[g.IntN(3)]
	case "boolean":
		return g.IntN(2) == 0
	case "array":
		return g.list(s)
	case "object":
		return g.tree(s)
	}
	return []string{"a", "b", "c", "quoted \"name\""}[g.IntN(3+g.IntN(2)*g.IntN(2)*g.IntN(2))]
}

func (g *gardener) tree(s spec.Schema) map[string]any {
	out := map[string]any{}
	for name, p := range s.Properties {
		if g.IntN(3) > 0 {
			out[name] = g.value(p)
		}
	}
	if s.AdditionalProperties != nil {
		for range g.IntN(3) {
			out[fmt.Sprint("k", g.IntN(4))] = g.value(*s.AdditionalProperties.Schema)
		}
	}
	if _, open := s.Extensions["x-kubernetes-preserve-unknown-fields"]; open {
		for range g.IntN(3) {
			out[fmt.Sprint("u", g.IntN(4))] = []any{"a", int64(1), []any{"x", int64(g.IntN(2))}, map[string]any{"v": "w"}, map[string]any{}}[g.IntN(5)]
		}
	}
	return out
}

func (g *gardener) list(s spec.Schema) []any {
	out := []any{}
	seen := map[string]bool{}
	keys, _ := s.Extensions["x-kubernetes-list-map-keys"].([]any)
	for range g.IntN(4) {
		value := g.value(*s.Items.Schema)
		name := fmt.Sprint(value)
		if m, isMap := value.(map[string]any); isMap && keys != nil {
			name = ""
			for _, k := range keys {
				m[k.(string)] = g.value(s.Items.Schema.Properties[k.(string)])
				if k == "port" {
					m["port"] = int64(g.IntN(120))
				}
				name += fmt.Sprint(m[k.(string)], " ")
			}
		}
		if s.Extensions["x-kubernetes-list-type"] == nil || !seen[name] || g.strange {
			out = append(out, value)
		}
		seen[name] = true
	}
	return out
}

// garden changes one object of a random kind again and again, both ways.
type garden struct {
	*testing.T
	*gardener
	kind        *resource.Kind
	properties  map[string]spec.Schema
	live        *unstructured.Unstructured
	owners      Owners
	last        map[string]*unstructured.Unstructured // what was applied, by view and manager
	quick, slow map[string]int
}

// TestTreesAreTrackedAndMergedAsTheLibraryDoes changes random objects of random schemas, by several managers, through
// both views.
func TestTreesAreTrackedAndMergedAsTheLibraryDoes(t *testing.T) {
	seed := randomly.Seed(t)
	quick, slow := map[string]int{}, map[string]int{}
	synctest.Test(t, func(t *testing.T) {
		for round := range uint64(250) {
			g := &garden{T: t, gardener: &gardener{Rand: rand.New(rand.NewPCG(seed, round))}, quick: quick, slow: slow}
			g.properties = map[string]spec.Schema{"spec": g.schema(0), "status": g.schema(1), "data": g.schema(2)}
			if round%2 == 0 {
				inner := map[string]spec.Schema{"a": g.schema(1), "b": g.schema(1), "c": g.schema(1)}
				g.properties["spec"] = object(inner)
			}
			g.kind = customKind(t, g.properties)
			g.strange = round%4 == 3
			for range 4 {
				g.live, g.last = nil, map[string]*unstructured.Unstructured{}
				for range 12 {
					g.step()
					time.Sleep(time.Second)
				}
			}
		}
	})
	t.Logf("quick: %v, left to the library: %v", quick, slow)
	// What is applied again mostly touches what others own by now, which is the library's.
	for how, least := range map[string]float64{"parts": 0.7, "create": 0.7, "update": 0.7, "apply new": 0.7, "apply again": 0.1} {
		if float64(quick[how]) < least*float64(quick[how]+slow[how]) {
			t.Errorf("too much is left to the library: %s", how)
		}
	}
}

func (g *garden) step() {
	view, manager := "", []string{"kubectl", "one", "two"}[g.IntN(3)]
	if g.live != nil && g.IntN(4) == 0 {
		view = "status"
	}
	if g.IntN(3) == 0 {
		g.apply(view, manager)
		return
	}
	g.update(view, manager)
}

func (g *garden) random() *unstructured.Unstructured {
	u := tree.Of(g.kind.New())
	for name, s := range g.properties {
		if name != "apiVersion" && name != "kind" && name != "metadata" && g.IntN(4) > 0 {
			u.Object[name] = g.value(s)
		}
	}
	u.SetName("x")
	if g.IntN(2) == 0 {
		u.SetLabels(map[string]string{"l": fmt.Sprint(g.IntN(3)), "example.com/m": "1"})
	}
	if g.IntN(3) == 0 {
		u.SetFinalizers([]string{"example.com/f", "example.com/e"}[:1+g.IntN(2)])
	}
	if g.IntN(3) == 0 {
		u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "o", UID: "1"}})
	}
	return u
}

// changed is the live object with some parts from another one.
func (g *garden) changed() *unstructured.Unstructured {
	if g.live == nil {
		return g.random()
	}
	out, other := g.live.DeepCopy(), g.random()
	for range g.IntN(3) {
		graft(g.Rand, out.Object, other.Object)
	}
	out.SetName("x")
	switch g.IntN(12) {
	case 0:
		out.SetManagedFields(nil)
	case 1:
		if g.strange {
			out.SetManagedFields([]metav1.ManagedFieldsEntry{})
		}
	}
	return out
}

func graft(random *rand.Rand, into, from map[string]any) {
	for name, value := range from {
		if name == "apiVersion" || name == "kind" || name == "managedFields" || random.IntN(2) == 0 {
			continue
		}
		a, isMap := into[name].(map[string]any)
		b, also := value.(map[string]any)
		switch {
		case isMap && also && random.IntN(4) > 0:
			graft(random, a, b)
		case random.IntN(4) == 0 && name != "metadata":
			delete(into, name)
		case name != "metadata":
			into[name] = runtime.DeepCopyJSONValue(value)
		}
	}
}

func (g *garden) old() resource.Object {
	if g.live == nil {
		return nil
	}
	return g.live.DeepCopy()
}

func (g *garden) update(view, manager string) {
	obj := g.changed()
	d := g.owners.tracker(g.kind.Faces[0], view)
	got, want := obj.DeepCopy(), obj.DeepCopy()
	how := "update"
	if g.live == nil {
		how = "create"
	}
	wrong := d.track(d.face, g.old(), want, manager)
	if !d.quick.trackTree(g.old(), got, manager) {
		g.slow[how]++
	} else {
		g.quick[how]++
		if wrong != nil {
			g.Fatalf("the library refuses what was tracked: %v\nold %s\nnew %s", wrong, printed(g.live), printed(obj))
		}
		g.compare(view+" "+how+" by "+manager, got, want, obj)
	}
	g.updateParts(view, manager, obj, want, wrong)
	g.live = want
	g.live.SetUID("u")
}

// updateParts does the same with objects whose parts are texts. What has not changed must be right, as it is known to
// be where objects are checked first.
func (g *garden) updateParts(view, manager string, obj, want *unstructured.Unstructured, wrong error) {
	now, ok := inParts(g.T, obj)
	if !ok || wrong != nil {
		return
	}
	var old resource.Object
	if g.live != nil {
		if old, ok = inParts(g.T, g.live); !ok {
			return
		}
		now.Check("here", func() bool { return true })
	}
	how := "parts"
	if !g.owners.tracker(g.kind.Faces[0], view).quick.trackParts(old, now, manager) {
		g.slow[how]++
		return
	}
	g.quick[how]++
	g.compare(view+" update of parts by "+manager, now.Tree(), want, obj)
}

func inParts(t *testing.T, u *unstructured.Unstructured) (o *tree.Object, ok bool) {
	t.Helper()
	text, err := tree.Append(nil, u.Object)
	if err != nil {
		t.Fatal(err)
	}
	return tree.ParseObject(string(text))
}

func (g *garden) compare(what string, got, want, given *unstructured.Unstructured) {
	if a, b := printed(got), printed(want); a != b {
		schema := printed(g.properties)
		g.Fatalf("%s of\n  %s\ninto\n  %s\n got %s\nwant %s\nschema %s", what, printed(given), printed(g.live), a, b, schema)
	}
	if !equality.Semantic.DeepEqual(got.Object, want.Object) {
		g.Fatalf("%s: %#v, want %#v", what, got.Object, want.Object)
	}
}

func (g *garden) apply(view, manager string) {
	configuration := g.random()
	how, live := "apply new", g.old()
	if g.live != nil {
		how = "apply other"
		if last := g.last[view+manager]; last != nil && g.IntN(3) > 0 {
			how, configuration = "apply again", last.DeepCopy()
			g.shake(configuration.Object, "")
		}
	}
	if view == "status" {
		unstructured.RemoveNestedField(configuration.Object, "spec")
	} else if g.IntN(2) == 0 {
		unstructured.RemoveNestedField(configuration.Object, "status")
	}
	g.last[view+manager] = configuration
	d := g.owners.tracker(g.kind.Faces[0], view)
	want, wrong := d.apply(d.face, live, configuration.DeepCopy(), manager, true)
	if live != nil {
		g.applyParts(d, view, manager, configuration, want, wrong)
	}
	got, ok := d.quick.applyTree(d.face, g.old(), configuration.DeepCopy(), manager)
	if !ok {
		g.slow[how]++
	} else {
		g.quick[how]++
		if live != nil {
			keepTimes(got, live)
		}
		if wrong != nil {
			g.Fatalf("the library refuses what was applied: %v\nlive %s\nconfiguration %s", wrong, printed(g.live), printed(configuration))
		}
		g.compare(view+" "+how+" by "+manager, got.(*unstructured.Unstructured), want.(*unstructured.Unstructured), configuration)
	}
	if wrong == nil {
		g.live = want.(*unstructured.Unstructured)
		g.live.SetUID("u")
	}
}

// applyParts does the same to an object whose parts are texts.
func (g *garden) applyParts(d *tracker, view, manager string, configuration *unstructured.Unstructured, want resource.Object, wrong error) {
	live, ok := inParts(g.T, g.live)
	if !ok || wrong != nil {
		return
	}
	before := d.face.Of.Default
	d.face.Of.Default = func(o resource.Object) {
		o.(*tree.Object).Check("here", func() bool { return true })
	}
	got, ok := d.quick.applyParts(d.face, live, configuration.DeepCopy(), manager)
	d.face.Of.Default = before
	if !ok {
		g.slow["parts applied"]++
		return
	}
	g.quick["parts applied"]++
	g.compare(view+" parts applied by "+manager, got.Tree(), want.(*unstructured.Unstructured), configuration)
}

// shake changes texts and numbers.
func (g *garden) shake(value any, name string) any {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			if name != "metadata" && name != "apiVersion" && name != "kind" && name != "name" && name != "port" {
				v[name] = g.shake(inner, name)
			}
		}
	case []any:
		for i := range v {
			if _, isMap := v[i].(map[string]any); isMap {
				v[i] = g.shake(v[i], name)
			}
		}
	case string:
		if g.IntN(3) == 0 {
			return strings.ToUpper(v)
		}
	case int64:
		return v + int64(g.IntN(2))
	}
	return value
}
