package decode_test

import (
	"bytes"
	"encoding/json"
	"math/rand"
	"reflect"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/randomly"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/randfill"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/builtin"
	"github.com/millrace/millrace/internal/server/resource/decode"
)

// agree checks the package's guarantee for one text, and returns whether it was accepted.
func agree(t *testing.T, text []byte, make func() runtime.Object) (accepted bool) {
	t.Helper()
	got, want := make(), make()
	if accepted = decode.JSON(bytes.Clone(text), got); !accepted {
		return false
	}
	strict, err := strictjson.UnmarshalStrict(text, want)
	switch {
	case err != nil:
		t.Errorf("accepted, but it is wrong: %v: %q", err, text)
	case len(strict) > 0:
		t.Errorf("accepted, but there is this to say: %v: %q", strict, text)
	case !reflect.DeepEqual(got, want):
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		t.Errorf("of %q\n got %s\nwant %s", text, a, b)
	}
	return true
}

var words = []string{"a", "some value of it", "<b>&amp;", "\u2028", "\"", "\\", "\n\t\r\b\f", "\x00\x1f\x7f", "日本語", "0123456789abcdefghij", "/"}

func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(0.4).NumElements(0, 3).MaxDepth(14).Funcs(
		func(s *string, c randfill.Continue) {
			for range c.Intn(4) {
				*s += words[c.Intn(len(words))]
			}
		},
		func(v *apiextensionsv1.JSON, _ randfill.Continue) { v.Raw = []byte(`{"a":1}`) },
		func(*metav1.TypeMeta, randfill.Continue) {},
		func(v *metav1.Time, c randfill.Continue) { v.Time = time.Unix(c.Int63n(1<<31), 0) },
		func(v *metav1.MicroTime, c randfill.Continue) {
			v.Time = time.Unix(c.Int63n(1<<31), 1000*c.Int63n(1e6))
		},
		func(v *apiresource.Quantity, c randfill.Continue) {
			*v = *apiresource.NewScaledQuantity(c.Int63n(5000)-1000, apiresource.Scale(c.Intn(12)-6))
		},
		func(v *intstr.IntOrString, c randfill.Continue) {
			if *v = intstr.FromInt32(int32(c.Intn(3) - 1)); c.Bool() {
				*v = intstr.FromString(words[c.Intn(len(words))])
			}
		},
		func(v *runtime.RawExtension, c randfill.Continue) {
			*v = runtime.RawExtension{Raw: []byte([]string{`{"a":[1,-2.5e-3,true,null,"x",{}]}`, `[]`, `"é"`}[c.Intn(3)])}
		},
		func(v *metav1.FieldsV1, c randfill.Continue) {
			*v = *metav1.NewFieldsV1([]string{`{}`, `{"f:a":{".":{},"k:{\"x\":\"y\"}":{}}}`}[c.Intn(2)])
		},
	)
}

// eachText makes texts of all kinds, in all their versions.
func eachText(t testing.TB, rounds int, f func(face *resource.Face, text []byte)) {
	fill := filler(int64(randomly.Seed(t)))
	for _, k := range builtin.Kinds() {
		for _, face := range k.Faces {
			for range rounds {
				o := face.New()
				fill.Fill(o)
				text, err := json.Marshal(o)
				if err != nil {
					t.Fatal(err)
				}
				f(face, text)
			}
		}
	}
}

func TestObjectsOfAllKindsAreAccepted(t *testing.T) {
	eachText(t, 3, func(face *resource.Face, text []byte) {
		if !agree(t, text, face.New) {
			t.Errorf("%v: refused %s", face.GroupVersionKind, text)
		}
		var indented bytes.Buffer
		if err := json.Indent(&indented, text, "", "\t"); err != nil {
			t.Fatal(err)
		}
		if !agree(t, indented.Bytes(), face.New) {
			t.Errorf("%v: refused %s", face.GroupVersionKind, &indented)
		}
	})
}

// pieces replace tokens of other texts.
var pieces = []string{`null`, `{}`, `[]`, `""`, `"x"`, `0`, `-1`, `1.5`, `1e3`, `01`, `true`, `false`, `[null]`, `{"a":null}`, `{"name":"x","name":"y"}`, `"\u00e9"`,
	`"\ud800"`, `"2020-01-02T03:04:05Z"`, `"2020-01-02T03:04:05.123456Z"`, `"100m"`, `99999999999999999999`, `"YQ=="`, `"YQ="`, `"`, `,`, `:`, `}`, ` `, "\x00", "\xff", `\`, `"kind":"X",`}

// mutated removes, replaces or duplicates a token of a text.
func mutated(r *rand.Rand, text []byte) []byte {
	marks := []byte(`{}[],:"0123456789`)
	cut := func() int {
		for from := r.Intn(len(text)); from < len(text); from++ {
			if bytes.IndexByte(marks, text[from]) >= 0 {
				return from
			}
		}
		return len(text)
	}
	a, b := cut(), cut()
	if a > b {
		a, b = b, a
	}
	switch b = min(b, a+r.Intn(40)); r.Intn(4) {
	case 0:
		b = a
	case 1:
		end := min(len(text), a+r.Intn(80))
		return bytes.Join([][]byte{text[:end], text[a:]}, nil)
	}
	return bytes.Join([][]byte{text[:a], []byte(pieces[r.Intn(len(pieces))]), text[b:]}, nil)
}

func TestAcceptedTextsGiveTheSameAsTheLibrary(t *testing.T) {
	r := rand.New(rand.NewSource(int64(randomly.Seed(t))))
	accepted, all := 0, 0
	eachText(t, 2, func(face *resource.Face, text []byte) {
		for range 20 {
			if all++; agree(t, mutated(r, text), face.New) {
				accepted++
			}
		}
	})
	t.Logf("%d of %d accepted", accepted, all)
	if accepted == 0 || accepted == all {
		t.Errorf("%d of %d texts were accepted: that proves little", accepted, all)
	}
}

func TestOrdinaryValuesInUnusualPlaces(t *testing.T) {
	newPod := func() runtime.Object { return &corev1.Pod{} }
	for text, want := range map[string]bool{
		`{}`: true,
		` { "metadata" : { "labels" : { "a" : null , "b" : "\u00e9\"\/" } } } `:            true,
		`{"metadata":{"labels":{},"finalizers":[]}}`:                                       true,
		`{"metadata":null,"spec":{"containers":null,"nodeSelector":null}}`:                 true,
		`{"metadata":{"creationTimestamp":null,"finalizers":[null,"x"]}}`:                  true,
		`{"spec":{"containers":[null,{"resources":{"limits":{"cpu":1,"memory":"1Gi"}}}]}}`: true,
		`{"spec":{"priority":-0}}`:                                                         true,
		`{"spec":{"priority":1.0}}`:                                                        false,
		`{"spec":{"priority":2147483648}}`:                                                 false,
		`{"metadata":{"labels":{"a":"1","a":"1"}}}`:                                        false,
		`{"metadata":{},"metadata":{}}`:                                                    false,
		`{"metadata":{"Labels":{}}}`:                                                       false,
		`{"metadata":{"labels":{"a":1}}}`:                                                  false,
		`{"metadata":{"managedFields":[{"fieldsV1":{"f:a":{},"f:a":}}]}}`:                  false,
		`{"metadata":{"name":"` + "\xff" + `"}}`:                                           false,
		`{"m\u0065tadata":{}}`:                                                             true,
		`{} {}`:                                                                            false,
		`{"spec":`:                                                                         false,
		``:                                                                                 false,
		`[]`:                                                                               false,
		`null`:                                                                             false,
	} {
		if got := agree(t, []byte(text), newPod); got != want {
			t.Errorf("accepted %v, want %v: %s", got, want, text)
		}
	}
}

func TestDeepTextsAreRefused(t *testing.T) {
	deep := func(n int) []byte {
		return []byte(`{"metadata":{"managedFields":[{"fieldsV1":` + string(bytes.Repeat([]byte(`[`), n)) + string(bytes.Repeat([]byte(`]`), n)) + `}]}}`)
	}
	newPod := func() runtime.Object { return &corev1.Pod{} }
	if !agree(t, deep(50), newPod) {
		t.Error("50 lists in each other were refused")
	}
	if agree(t, deep(100_000), newPod) {
		t.Error("100,000 lists in each other were accepted")
	}
}

func TestATextThatEndsTooEarlyIsRefusedWhereverItEnds(t *testing.T) {
	eachText(t, 1, func(face *resource.Face, text []byte) {
		for end := range len(text) {
			if end > 0 && bytes.IndexByte([]byte(`{}[]:,"`), text[end-1]) < 0 {
				continue // inside a word, where all places are alike
			}
			if decode.JSON(bytes.Clone(text[:end]), face.New()) {
				t.Fatalf("accepted %s", text[:end])
			}
		}
	})
}

func FuzzPods(f *testing.F) {
	fill := filler(1)
	for range 5 {
		p := &corev1.Pod{}
		fill.Fill(p)
		text, err := json.Marshal(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) { agree(t, text, func() runtime.Object { return &corev1.Pod{} }) })
}
