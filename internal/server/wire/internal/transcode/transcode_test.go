package transcode_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/protobuf"
	"github.com/millrace/millrace/internal/randomly"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/builtin"
	"github.com/millrace/millrace/internal/server/wire/internal/transcode"
)

// oddities are the parts of which strings in the tests consist.
var oddities = []string{"a", "some value", "<b>&amp;", "\u2028", "\u2029", "\xff", "\xe2\x80", "\"", "\\", "\n\t\r\b\f", "\x00\x1f\x7f", "日本語", "🐟", "0123456789abcdefghij"}

func oddString(c randfill.Continue) string {
	s := ""
	for range c.Intn(4) {
		s += oddities[c.Intn(len(oddities))]
	}
	return s
}

var quantities = []string{"0", "-0", "1", "100m", "-5", "1500m", "1.5", "1000", "1e3", "12E2", "1e-3", "128Mi", "8Gi", "1024Mi", "1025Ki", "0.5Gi", "7Ei", "5n", "0.1n", "10k", "-1Ki", "99999999999999999999", "1T", "3P", "1E", "010", "+7", ".5", "1.", "00Ki"}

var raws = []string{`{}`, `{"a":1}`, `{"a": 1}`, ` {"a":[1,2.5e-3,true,null,"x"]} `, `[1]`, `"<"`, `{"<":"` + "\u2028" + `"}`, `null`, `{"a":"\u00e9\"\/"}`, `{"a":"` + "\xff" + `"}`, `-1`}

// filler fills objects of any type with random values, preferably unusual ones.
func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(0.4).NumElements(0, 3).MaxDepth(14).Funcs(
		func(s *string, c randfill.Continue) { *s = oddString(c) },
		func(n *int32, c randfill.Continue) {
			*n = []int32{0, 1, -1, 300, math.MaxInt32, math.MinInt32}[c.Intn(6)]
		},
		func(n *int64, c randfill.Continue) {
			*n = []int64{0, 1, -1, 300, math.MaxInt64, math.MinInt64}[c.Intn(6)]
		},
		func(v *apiextensionsv1.JSON, c randfill.Continue) {
			if *v = (apiextensionsv1.JSON{}); c.Bool() {
				v.Raw = []byte(raws[c.Intn(len(raws))])
			}
		},
		func(f *float64, c randfill.Continue) {
			*f = []float64{0, math.Copysign(0, -1), 1, -1.5, 1e21, 1e-7, 123456789.125, math.MaxFloat64, math.SmallestNonzeroFloat64}[c.Intn(9)]
		},
		func(*metav1.TypeMeta, randfill.Continue) {},
		func(v *metav1.Time, c randfill.Continue) { v.Time = oddTime(c) },
		func(v *metav1.MicroTime, c randfill.Continue) { v.Time = oddTime(c) },
		func(v *apiresource.Quantity, c randfill.Continue) {
			switch c.Intn(3) {
			case 0:
				*v = *apiresource.NewScaledQuantity(c.Int63n(5000)-1000, apiresource.Scale(c.Intn(12)-6))
			case 1:
				*v = *apiresource.NewQuantity(c.Int63n(1<<40), apiresource.BinarySI)
			default:
				*v = apiresource.MustParse(quantities[c.Intn(len(quantities))])
			}
		},
		func(v *intstr.IntOrString, c randfill.Continue) {
			if *v = intstr.FromInt32(int32(c.Intn(3) - 1)); c.Bool() {
				*v = intstr.FromString(oddString(c))
			}
		},
		func(v *runtime.RawExtension, c randfill.Continue) {
			if *v = (runtime.RawExtension{}); c.Bool() {
				v.Raw = []byte(raws[c.Intn(len(raws))])
			}
		},
		func(v *metav1.FieldsV1, c randfill.Continue) {
			*v = *metav1.NewFieldsV1([]string{"", `{}`, `{"f:a":{".":{},"k:{\"x\":\"y\"}":{}}}`, `{ "f:a": {} }`}[c.Intn(4)])
		},
	)
}

func oddTime(c randfill.Continue) time.Time {
	switch c.Intn(6) {
	case 0:
		return time.Time{}
	case 1:
		return time.Unix(0, 0)
	case 2:
		return time.Unix(-c.Int63n(1<<36), 0)
	case 3:
		return time.Unix(c.Int63n(1<<40), c.Int63n(1e9)) // beyond the year 9999 too
	}
	return time.Unix(c.Int63n(1<<31), c.Int63n(1e9))
}

// decoded returns the text that decoding and encoding gives.
func decoded(k *resource.Kind, message []byte, version string) ([]byte, error) {
	o := k.New()
	if err := o.(protobuf.Message).Unmarshal(message); err != nil {
		return nil, err
	}
	o.SetResourceVersion(version)
	return json.Marshal(o)
}

func encode(t testing.TB, o resource.Object) []byte {
	t.Helper()
	m := o.(protobuf.Message)
	message := make([]byte, m.Size())
	if _, err := m.MarshalToSizedBuffer(message); err != nil {
		t.Fatal(err)
	}
	return message
}

func firstDifference(a, b []byte) string {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	from := max(0, n-60)
	return fmt.Sprintf("after %d bytes:\n got %q\nwant %q", n, a[from:min(len(a), n+60)], b[from:min(len(b), n+60)])
}

func TestEveryBuiltInKindHasAPlan(t *testing.T) {
	for _, k := range builtin.Kinds() {
		if _, err := transcode.Compile(k.GoType()); err != nil {
			t.Errorf("%s: %v", k.Kind, err)
		}
	}
}

func TestTextEqualsThatOfTheDecodedObject(t *testing.T) {
	seed := int64(randomly.Seed(t))
	fill := filler(seed)
	rounds := 15
	for _, k := range builtin.Kinds() {
		plan, err := transcode.Compile(k.GoType())
		if err != nil {
			t.Fatal(err)
		}
		for round := range rounds {
			o := k.New()
			fill.Fill(o)
			message, version := encode(t, o), []string{"", "7", "12345678901"}[round%3]
			want, err := decoded(k, message, version)
			if err != nil {
				t.Fatalf("%s, seed %d: %v", k.Kind, seed, err)
			}
			got, ok := plan.JSON(message, []byte(version))
			if !ok {
				t.Fatalf("%s, seed %d: refused %s", k.Kind, seed, want)
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("%s, seed %d: %s", k.Kind, seed, firstDifference(got, want))
			}
		}
	}
}

func TestAnEmptyMessageIsAnObjectOfZeroValues(t *testing.T) {
	for _, k := range builtin.Kinds() {
		plan, _ := transcode.Compile(k.GoType())
		want, _ := json.Marshal(k.New())
		if got, ok := plan.JSON(nil, []byte("")); !ok || !bytes.Equal(got, want) {
			t.Errorf("%s: %v %s, want %s", k.Kind, ok, got, want)
		}
	}
}

// TestDamagedMessagesAreRefusedOrReadLikeTheLibrary changes bytes of valid messages. If a plan accepts one, its text
// must equal that of the decoded object.
func TestDamagedMessagesAreRefusedOrReadLikeTheLibrary(t *testing.T) {
	seed := int64(randomly.Seed(t))
	fill, rng := filler(seed), rand.New(rand.NewSource(seed))
	taken := 0
	for _, k := range builtin.Kinds() {
		plan, _ := transcode.Compile(k.GoType())
		o := k.New()
		fill.Fill(o)
		message := encode(t, o)
		for range 200 {
			bad := damage(rng, message)
			got, ok := plan.JSON(bad, []byte("5"))
			if !ok {
				continue
			}
			taken++
			if want, err := decoded(k, bad, "5"); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s, seed %d: %v, %s", k.Kind, seed, err, firstDifference(got, want))
			}
		}
	}
	if taken == 0 {
		t.Error("no damaged message was taken: nothing was compared")
	}
}

func damage(rng *rand.Rand, message []byte) []byte {
	bad := bytes.Clone(message)
	if len(bad) == 0 {
		return []byte{byte(rng.Intn(256))}
	}
	at := rng.Intn(len(bad))
	switch rng.Intn(4) {
	case 0:
		return bad[:at]
	case 1:
		return append(bad[:at], bad[min(len(bad), at+1+rng.Intn(4)):]...)
	case 2:
		return append(bad[:at:at], message[rng.Intn(at+1):]...)
	}
	bad[at] ^= 1 << rng.Intn(8)
	return bad
}

func TestMetadataOfAnyObjectIsThatOfThePartialObject(t *testing.T) {
	seed := int64(randomly.Seed(t))
	fill := filler(seed)
	plan, err := transcode.CompileMetadata(partialType)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range builtin.Kinds() {
		for range 10 {
			o := k.New()
			fill.Fill(o)
			message := encode(t, o)
			p := &metav1.PartialObjectMetadata{}
			if err := p.Unmarshal(message); err != nil {
				t.Fatal(err)
			}
			p.ResourceVersion = "9"
			want, _ := json.Marshal(p)
			if got, ok := plan.JSON(message, []byte("9")); !ok || !bytes.Equal(got, want) {
				t.Fatalf("%s, seed %d: %v, %s", k.Kind, seed, ok, firstDifference(got, want))
			}
		}
	}
}

func TestWhatAPlanDoesNotKnowIsRefused(t *testing.T) {
	plan, _ := transcode.Compile(podType)
	message := encode(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}})
	for name, more := range map[string][]byte{
		"an unknown field":          {0x7a, 1, 'x'},
		"metadata twice":            message,
		"a field of another type":   {0x10, 1},
		"a group":                   {0x13, 0x14},
		"number zero":               {0x02, 0},
		"a length beyond the end":   {0x12, 5},
		"a number that has no end":  {0x12, 0xff},
		"a length without an end":   {0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		"a length that is negative": {0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
	} {
		if got, ok := plan.JSON(append(bytes.Clone(message), more...), []byte("")); ok {
			t.Errorf("%s was taken: %s", name, got)
		}
	}
}

// A message may hold a list of schemas and one schema. JSON shows the list alone.
func TestASchemaBesideAListIsReadThoughItIsNotShown(t *testing.T) {
	plan, err := transcode.Compile(typeOf(apiextensionsv1.CustomResourceDefinition{}))
	if err != nil {
		t.Fatal(err)
	}
	nested := func(value []byte, numbers ...byte) []byte {
		for _, number := range numbers {
			value = append([]byte{number<<3 | 2, byte(len(value))}, value...)
		}
		return value
	}
	// The numbers of items (two bytes as a tag), the schema, the version's validation, the version and the spec.
	const list = "\x12\x03\x32\x01a" // an element with format "a"
	i := slices.IndexFunc(builtin.Kinds(), func(k *resource.Kind) bool { return k.Kind == "CustomResourceDefinition" })
	k := builtin.Kinds()[i]
	for name, c := range map[string]struct {
		schema string
		valid  bool
	}{
		"valid":               {"\x0a\x03\x32\x01f", true},
		"of a bad wire type":  {"\x0a\x03\x36\x01f", false},
		"an unfinished field": {"\x0a\x02\x32\x05", false},
	} {
		for _, items := range []string{c.schema + list, list + c.schema} {
			message := nested(append([]byte{0xc2, 0x01, byte(len(items))}, items...), 1, 4, 7, 2)
			want, err := decoded(k, message, "5")
			if (err == nil) != c.valid {
				t.Fatalf("%s: the library says %v", name, err)
			}
			if got, ok := plan.JSON(message, []byte("5")); ok != c.valid || c.valid && !bytes.Equal(got, want) {
				t.Errorf("%s: %v, %s", name, ok, firstDifference(got, want))
			}
		}
	}
}

func TestTypesThatCannotBeDescribedHaveNoPlan(t *testing.T) {
	for _, o := range []any{metav1.ListMeta{}, metav1.Table{}, schema.GroupVersionKind{}, corev1.PodSpec{}} {
		if _, err := transcode.Compile(typeOf(o)); err == nil {
			t.Errorf("%T has a plan", o)
		}
	}
}

func FuzzJSON(f *testing.F) {
	fill := filler(1)
	all := builtin.Kinds()
	for i, k := range all {
		o := k.New()
		fill.Fill(o)
		f.Add(i, encode(f, o))
	}
	f.Fuzz(func(t *testing.T, i int, message []byte) {
		k := all[uint(i)%uint(len(all))]
		plan, err := transcode.Compile(k.GoType())
		if err != nil {
			t.Fatal(err)
		}
		got, ok := plan.JSON(message, []byte("5"))
		if !ok {
			return
		}
		if want, err := decoded(k, message, "5"); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%s: %v, %s", k.Kind, err, firstDifference(got, want))
		}
	})
}

var (
	podType     = typeOf(corev1.Pod{})
	partialType = typeOf(metav1.PartialObjectMetadata{})
)

func typeOf(o any) reflect.Type { return reflect.TypeOf(o) }
