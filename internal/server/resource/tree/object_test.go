package tree

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/randomly"
	"github.com/millrace/millrace/internal/server/resource"
)

// client writes JSON as any client may: in any order, with white space and needless escapes.
type client struct {
	*rand.Rand
	tidy bool
}

func (c client) write(b *strings.Builder, value any) {
	switch v := value.(type) {
	case map[string]any:
		b.WriteByte('{')
		names := slices.Sorted(maps.Keys(v))
		if !c.tidy {
			c.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		}
		for i, name := range names {
			if i > 0 {
				b.WriteByte(',')
			}
			c.space(b)
			c.text(b, name)
			b.WriteByte(':')
			c.space(b)
			c.write(b, v[name])
		}
		c.space(b)
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for i, inner := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			c.space(b)
			c.write(b, inner)
		}
		b.WriteByte(']')
	case string:
		c.text(b, v)
	default:
		text, _ := json.Marshal(v)
		b.Write(text)
	}
}

func (c client) space(b *strings.Builder) {
	if !c.tidy && c.IntN(8) == 0 {
		b.WriteString(" \n")
	}
}

func (c client) text(b *strings.Builder, s string) {
	if !c.tidy && c.IntN(10) == 0 && s != "" && s[0] < 0x80 {
		fmt.Fprintf(b, `"\u%04x`, s[0])
		text, _ := json.Marshal(s[1:])
		b.Write(text[1:])
		return
	}
	text, _ := json.Marshal(s)
	b.Write(text)
}

func randomMeta(r *rand.Rand) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Name: "a"}
	some := func(percent int) bool { return r.IntN(100) < percent }
	texts := func() map[string]string {
		out := map[string]string{word(r): word(r)}
		for range r.IntN(3) {
			out[word(r)] = word(r)
		}
		return out
	}
	at := metav1.NewTime(time.Unix(1_700_000_000+r.Int64N(1e8), 0))
	if some(50) {
		m.Labels = texts()
	}
	if some(50) {
		m.Annotations = texts()
	}
	if some(70) {
		m.UID, m.Generation, m.CreationTimestamp, m.Namespace, m.ResourceVersion = types.UID(fmt.Sprint(r.IntN(10))), r.Int64N(5), at, "default", "7"
	}
	if some(20) {
		m.GenerateName, m.Finalizers = "a-", []string{"example.com/a", word(r)}
	}
	if some(20) {
		m.DeletionTimestamp, m.DeletionGracePeriodSeconds = &at, new(r.Int64N(3))
	}
	if some(30) {
		m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: word(r), UID: "1"}, {Kind: "A", Controller: new(true), BlockOwnerDeletion: new(false)}}
	}
	if some(50) {
		m.ManagedFields = []metav1.ManagedFieldsEntry{
			{Manager: "m", Operation: "Update", APIVersion: "example.com/v1", Time: &at, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"k:{\"n\":10}":{},"k:{\"n\":9}":{},".":{}}}`)},
			{Manager: word(r), Operation: "Apply", Subresource: "status"},
		}
	}
	return m
}

// TestTextsBecomeWhatTheirTreesAre reads random objects both ways. As texts they are encoded as their trees are once
// their metadata has been read and written by its type, and turned into a tree they are the same.
func TestTextsBecomeWhatTheirTreesAre(t *testing.T) {
	r := rand.New(rand.NewPCG(randomly.Seed(t), 1))
	const rounds = 10_000
	texts := 0
	for range rounds {
		m := randomMeta(r)
		meta, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&m)
		if err != nil {
			t.Fatal(err)
		}
		object := map[string]any{"apiVersion": "example.com/v1", "kind": "Tab", "metadata": meta}
		for range r.IntN(4) {
			name := []string{"spec", "status", "data", "a", "lists", word(r)}[r.IntN(6)]
			if name != "metadata" && name != "kind" {
				object[name] = randomValue(r, 3)
			}
		}
		var b strings.Builder
		sent := runtime.DeepCopyJSON(object)
		if m.CreationTimestamp.IsZero() && r.IntN(2) == 0 {
			sent["metadata"].(map[string]any)["creationTimestamp"] = nil // as encoders of Go structs write it
		}
		client{r, r.IntN(3) == 0}.write(&b, sent)
		o, ok := ParseObject(b.String())
		if !ok {
			continue
		}
		texts++
		want, err := Append(nil, object)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := o.MarshalJSON(); err != nil || string(got) != string(want) {
			t.Fatalf("%s\n got %s\nwant %s (%v)", b.String(), got, want, err)
		}
		again, ok := ParseObject(string(want))
		if !ok || !SameParts(again, o) || !Alike(again, o) || !reflect.DeepEqual(again.DeepCopyObject().(*Object).Tree(), o.Tree()) {
			t.Fatalf("%s is read differently", want)
		}
		var decoded map[string]any
		u := &unstructured.Unstructured{Object: decoded}
		if err := u.UnmarshalJSON(want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(o.Tree().Object, u.Object) {
			t.Fatalf("%s\n got %v\nwant %v", want, o.Tree().Object, u.Object)
		}
		if !reflect.DeepEqual(again.GetManagedFields(), again.GetManagedFields()) || !sameMeta(again, o) {
			t.Fatalf("%s: the metadata of the texts are not those of the tree", want)
		}
		o.Simplify()
		if _, ok := Parts(o); !ok || !SameParts(again, o) {
			t.Fatalf("%s does not become texts again", want)
		}
		if o.SetName(o.GetName() + "x"); Alike(again, o) || !Alike(NewObject(again.DeepCopyObject().(*Object).Tree()), again) {
			t.Fatalf("%s is not compared as a tree", want)
		}
	}
	if texts < rounds/5 {
		t.Errorf("only %d of %d objects were texts", texts, rounds)
	}
}

func sameMeta(a, b metav1.Object) bool {
	managers := func(o metav1.Object) string {
		text, _ := json.Marshal(o.GetManagedFields())
		return string(text)
	}
	return maps.Equal(a.GetLabels(), b.GetLabels()) && maps.Equal(a.GetAnnotations(), b.GetAnnotations()) && slices.Equal(a.GetFinalizers(), b.GetFinalizers()) &&
		reflect.DeepEqual(a.GetOwnerReferences(), b.GetOwnerReferences()) && a.GetGeneration() == b.GetGeneration() && a.GetUID() == b.GetUID() &&
		a.GetDeletionTimestamp().Equal(b.GetDeletionTimestamp()) && managers(a) == managers(b)
}

// TestUnusualTextsAreLeftToTrees has what must not become texts, because it would be written or compared in another
// way.
func TestUnusualTextsAreLeftToTrees(t *testing.T) {
	const head = `{"apiVersion":"example.com/v1","kind":"Tab","metadata":{"name":"a"}`
	for _, text := range []string{
		"", "{", "null", "[]", head, head + `}x`, head + `,"spec":null}`, head + `,"spec":1.5}`, head + `,"spec":[1,null]}`, head + `,"spec":9223372036854775807}`,
		head + `,"spec":1,"spec":2}`, head + `,"metadata":{"name":"b"}}`, head + `,"kind":"Tab"}`, head + `,"spec":{"a":1,"a":1}}`, head + `,"a<b":1}`,
		head + `,"spec":01}`, head + `,"spec":"` + "\xff" + `"}`, head + `,"spec":{"a"}}`, `{"kind":"Tab","metadata":{"name":"a"}}`, `{"apiVersion":"a/v1","metadata":{}}`,
		`{"apiVersion":"a/v1","kind":"A"}`, `{"apiVersion":"a/v1","kind":"","metadata":{}}`, `{"apiVersion":"a/v1","kind":"A","metadata":null}`,
		`{"apiVersion":"a/v1","kind":"A","metadata":{"labels":{}}}`, `{"apiVersion":"a/v1","kind":"A","metadata":{"labels":{"a":null}}}`,
		`{"apiVersion":"a/v1","kind":"A","metadata":{"unknown":1}}`, `{"apiVersion":"a/v1","kind":"A","metadata":{"name":"a","name":"b"}}`,
		`{"apiVersion":"a/v1","kind":"A","metadata":{"selfLink":"a"}}`, `{"apiVersion":"a/v1","kind":"A","metadata":{"deletionTimestamp":null}}`,
	} {
		if o, ok := ParseObject(text); ok {
			t.Errorf("%s became %v", text, o.Tree())
		}
	}
}

func FuzzTextsAreReadAsTrees(f *testing.F) {
	f.Add(`{"apiVersion":"a/v1","kind":"A","metadata":{"name":"a","creationTimestamp":null},"spec":{"b":[1,{}],"a":"\u003c"},"data":true}`)
	f.Fuzz(func(t *testing.T, text string) {
		o, ok := ParseObject(text)
		if !ok {
			return
		}
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON([]byte(text)); err != nil {
			t.Fatalf("%q is no JSON: %v", text, err)
		}
		for i := range o.All() {
			if p := &o.All()[i]; !Equal(p.Value(), u.Object[p.Name]) {
				t.Errorf("%q: %s is %v", text, p.Name, p.Value())
			}
		}
	})
}

// TestPartsAreKeptAsTreesAre keeps parts of random objects both ways.
func TestPartsAreKeptAsTreesAre(t *testing.T) {
	r := rand.New(rand.NewPCG(randomly.Seed(t), 1))
	k := New(Options{Identity: &resource.Identity{Group: "example.com", Resource: "tabs"}, Version: "v1", Storage: "v1", Kind: "Tab"})
	object := func() *Object {
		text := `{"apiVersion":"example.com/v1","kind":"Tab","metadata":{"name":"` + fmt.Sprint("n", r.IntN(2)) + `"}`
		for _, name := range []string{"data", "spec", "status"} {
			if r.IntN(3) > 0 {
				text += fmt.Sprintf(`,%q:{"a":%d}`, name, r.IntN(2))
			}
		}
		o, ok := ParseObject(text + "}")
		if !ok {
			t.Fatalf("%s} is unusual", text)
		}
		return o
	}
	for range 3000 {
		a, b := object(), object()
		x, y := a.DeepCopyObject().(*Object), b.DeepCopyObject().(*Object)
		x.Tree()
		part := []string{"spec", "status"}[r.IntN(2)]
		if k.Same(a, b, part) != k.Same(x, y.DeepCopyObject().(*Object), part) {
			t.Fatalf("%s of %v and %v", part, x.Tree(), b)
		}
		switch r.IntN(3) {
		case 0:
			k.Keep(a, b, part)
			k.Keep(x, y, part)
		case 1:
			k.Keep(a, nil, part)
			k.Keep(x, nil, part)
		case 2:
			k.KeepAllBut(a, b, part)
			k.KeepAllBut(x, y, part)
		}
		one, err := k.Encode(t.Context(), a)
		other, err2 := k.Encode(t.Context(), x)
		if err != nil || err2 != nil || string(one) != string(other) {
			t.Fatalf("%s, as a tree %s (%v, %v)", one, other, err, err2)
		}
	}
}
