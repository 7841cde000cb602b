package resourcetest

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/rand"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"

	kinds "github.com/millrace/millrace/internal/server/resource"
)

// Stored fills objects of every kind at random. It checks that their stored bytes decode to the same object, that
// labels and fields read from the bytes are those of the object, and that setting defaults is idempotent.
func Stored(t *testing.T, all []*kinds.Kind) {
	const seed, rounds = 1, 20
	fill := filler(seed)
	for _, k := range all {
		t.Run(k.Resource, func(t *testing.T) {
			for range rounds {
				o := k.New()
				fill.Fill(o)
				o.GetObjectKind().SetGroupVersionKind(k.GroupVersionKind())
				o.SetResourceVersion("")
				defaultsOnce(t, k, o)
				storesAndReads(t, k, o)
			}
		})
	}
}

func storesAndReads(t *testing.T, k *kinds.Kind, o kinds.Object) {
	t.Helper()
	stored, err := k.Encode(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	back, err := k.Decode(t.Context(), stored, "")
	if err != nil {
		t.Fatal(err)
	}
	if !equality.Semantic.DeepEqual(o, back) {
		for _, d := range differences(tree(t, marshal(t, o)), tree(t, marshal(t, back)), "") {
			t.Errorf("after a round trip: %s", d)
		}
		t.Fatal("stored bytes decode to another object")
	}
	a, err := k.Attributes(stored)
	if err != nil {
		t.Fatal(err)
	}
	if got := k.FieldsOf(back); !slices.Equal(a.Fields, got) {
		t.Errorf("fields in the bytes %q, in the object %q", a.Fields, got)
	}
	var labels []string
	for _, key := range slices.Sorted(maps.Keys(back.GetLabels())) {
		labels = append(labels, key, back.GetLabels()[key])
	}
	if !slices.Equal(a.Labels, labels) {
		t.Errorf("labels in the bytes %q, in the object %q", a.Labels, labels)
	}
}

func defaultsOnce(t *testing.T, k *kinds.Kind, o kinds.Object) {
	t.Helper()
	k.Default(o)
	once := marshal(t, o)
	k.Default(o)
	if twice := marshal(t, o); !bytes.Equal(once, twice) {
		for _, d := range differences(tree(t, once), tree(t, twice), "") {
			t.Errorf("defaulting twice: %s", d)
		}
	}
}

func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).RandSource(rand.NewSource(seed)).NilChance(0.3).NumElements(1, 2).MaxDepth(14).Funcs(
		func(s *string, c randfill.Continue) {
			b := make([]byte, 1+c.Intn(8))
			for i := range b {
				b[i] = byte('a' + c.Intn(26))
			}
			*s = string(b)
		},
		func(v *apiextensionsv1.JSON, _ randfill.Continue) { v.Raw = []byte(`{"a":1}`) },
		func(*metav1.TypeMeta, randfill.Continue) {},
		func(v *metav1.Time, c randfill.Continue) { *v = metav1.Unix(int64(c.Intn(1<<30)), 0) },
		func(v *metav1.MicroTime, c randfill.Continue) {
			*v = metav1.MicroTime{Time: metav1.Unix(int64(c.Intn(1<<30)), int64(c.Intn(1000000))*1000).Time}
		},
		func(v *resource.Quantity, c randfill.Continue) {
			*v = *resource.NewQuantity(int64(c.Intn(100000)), resource.DecimalSI)
			_ = v.String() // decoding also caches the text
		},
		func(v *intstr.IntOrString, c randfill.Continue) {
			if *v = intstr.FromInt32(int32(c.Intn(1000))); c.Bool() {
				*v = intstr.FromString("25%")
			}
		},
		func(v *runtime.RawExtension, _ randfill.Continue) { *v = runtime.RawExtension{Raw: []byte(`{"a":1}`)} },
		func(v *metav1.FieldsV1, _ randfill.Continue) { *v = *metav1.NewFieldsV1(`{"f:a":{}}`) },
		func(v *json.RawMessage, _ randfill.Continue) { *v = json.RawMessage(`{}`) },
	)
}
