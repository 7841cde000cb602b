package alike_test

import (
	"encoding/json"
	"math/rand"
	"reflect"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/randomly"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"

	"github.com/millrace/millrace/internal/server/resource/alike"
	"github.com/millrace/millrace/internal/server/resource/builtin"
)

func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(0.4).NumElements(0, 3).MaxDepth(12).Funcs(
		func(s *string, c randfill.Continue) { *s = []string{"", "a", "b"}[c.Intn(3)] },
		func(v *metav1.Time, c randfill.Continue) {
			v.Time = []time.Time{{}, time.Unix(1, 0), time.Unix(1, 0).In(time.FixedZone("x", 3600)), time.Unix(2, 5)}[c.Intn(4)]
		},
		func(v *apiresource.Quantity, c randfill.Continue) {
			*v = apiresource.MustParse([]string{"0", "0m", "1", "1000m", "1024", "1Ki", "2"}[c.Intn(7)])
		},
		func(v *runtime.RawExtension, c randfill.Continue) {
			*v = runtime.RawExtension{Raw: []byte(`{"a":1}`)[:c.Intn(8)]}
		},
		func(v *metav1.FieldsV1, c randfill.Continue) {
			*v = *metav1.NewFieldsV1([]string{`{}`, `{"f:a":{}}`}[c.Intn(2)])
		},
	)
}

// disturb changes something in a value, or exchanges nil and empty.
func disturb(r *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			disturb(r, v.Elem())
		} else if v.Kind() == reflect.Pointer && r.Intn(4) == 0 {
			v.Set(reflect.New(v.Type().Elem()))
		}
	case reflect.Struct:
		for range min(3, v.NumField()) {
			if f := v.Field(r.Intn(v.NumField())); f.CanSet() {
				disturb(r, f)
			}
		}
	case reflect.Slice:
		switch {
		case v.Len() == 0 && v.IsNil():
			v.Set(reflect.MakeSlice(v.Type(), r.Intn(2), 1))
		case v.Len() == 0:
			v.SetZero()
		default:
			disturb(r, v.Index(r.Intn(v.Len())))
		}
	case reflect.Map:
		switch {
		case v.Len() == 0 && v.IsNil():
			v.Set(reflect.MakeMap(v.Type()))
		case v.Len() == 0:
			v.SetZero()
		case r.Intn(2) == 0:
			v.SetMapIndex(v.MapKeys()[0], reflect.Zero(v.Type().Elem()))
		}
	case reflect.String:
		v.SetString([]string{"", "a", "b"}[r.Intn(3)])
	case reflect.Int32, reflect.Int64:
		v.SetInt(int64(r.Intn(2)))
	case reflect.Bool:
		v.SetBool(r.Intn(2) == 0)
	}
}

func TestEqualityIsThatOfTheLibrary(t *testing.T) {
	seed := int64(randomly.Seed(t))
	r, fill := rand.New(rand.NewSource(seed)), filler(seed)
	same, all := 0, 0
	for _, k := range builtin.Kinds() {
		for range 15 {
			a := k.New()
			fill.Fill(a)
			b := a.DeepCopyObject()
			for range r.Intn(3) {
				disturb(r, reflect.ValueOf(b).Elem())
			}
			want := equality.Semantic.DeepEqual(a, b)
			if got := alike.Values(reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()); got != want {
				x, _ := json.Marshal(a)
				y, _ := json.Marshal(b)
				t.Fatalf("seed %d: equal %v, want %v:\n%s\n%s", seed, got, want, x, y)
			}
			if identical := alike.Identical(reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()); identical && !reflect.DeepEqual(a, b) {
				t.Fatalf("seed %d: identical, but not the same: %#v and %#v", seed, a, b)
			}
			if all++; want {
				same++
			}
		}
	}
	if same < all/10 || same > all*9/10 {
		t.Errorf("%d of %d pairs are equal: that proves little", same, all)
	}
}

func TestCopiesAreIdentical(t *testing.T) {
	fill := filler(time.Now().UnixNano())
	for _, k := range builtin.Kinds() {
		a := k.New()
		fill.Fill(a)
		if !alike.Identical(reflect.ValueOf(a).Elem(), reflect.ValueOf(a.DeepCopyObject()).Elem()) {
			t.Errorf("%#v is not identical with its copy", a)
		}
	}
}

func benchSpec() *corev1.PodSpec {
	s := &corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways, SecurityContext: &corev1.PodSecurityContext{}}
	for range 3 {
		c := corev1.Container{Name: "c", Image: "registry.example/app:1", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("100m")}}}
		for range 12 {
			c.Env = append(c.Env, corev1.EnvVar{Name: "VARIABLE", Value: "some value of it, and a little more"})
		}
		s.Containers = append(s.Containers, c)
	}
	return s
}

func BenchmarkPodSpec(b *testing.B) {
	x, y := benchSpec(), benchSpec()
	for b.Loop() {
		if !alike.Equal(x, y) {
			b.Fatal("not equal")
		}
	}
}

func BenchmarkPodSpecByTheLibrary(b *testing.B) {
	x, y := benchSpec(), benchSpec()
	for b.Loop() {
		if !equality.Semantic.DeepEqual(x, y) {
			b.Fatal("not equal")
		}
	}
}
