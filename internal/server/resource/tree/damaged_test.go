package tree

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/millrace/millrace/internal/randomly"
)

// TestDamagedTextsAreReadAsTheLibraryReadsThem changes a few bytes of bodies. What is then still read as texts must be
// right for the library's strict reader too, and mean the same to it.
func TestDamagedTextsAreReadAsTheLibraryReadsThem(t *testing.T) {
	random := rand.New(rand.NewPCG(randomly.Seed(t), 3))
	seeds := []string{
		`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","labels":{"a":"b"},"creationTimestamp":null},"spec":{"a":1,"b":[1,"x",{}],"c":true}}`,
		`{"apiVersion":"example.com/v1","data":12,"kind":"Thing","metadata":{"name":"a","ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n","uid":"u"}],"finalizers":["x/y"]},"spec":{"\u0061":"\u003c\n\"\\","a":-0,"b":1.0,"c":1e3}}`,
		`{"kind": "Thing","spec":{},"metadata":{"managedFields":[{"manager":"m","fieldsV1":{"f:a":{"k:{\"x\":1}":{}}},"time":"2026-01-01T00:00:00Z"}],"generation":3},"apiVersion":"example.com/v1","status":[],"spec":{"é":"é"}}`,
		`{"apiVersion":"e/v1","kind":"T","metadata":{"labels":{"creationTimestamp":null},"foo":1,"Name":"x","ownerReferences":[{"uid":1}]}}`,
		`{"apiVersion":"e/v1","kind":"T","metadata":{"annotations":{"creationTimestamp":null},"name":"a"},"s":{}}`,
		`{"apiVersion":"e/v1","kind":"T","metadata":{"creationTimestamp":"2026-01-01T00:00:00.5+02:00","deletionGracePeriodSeconds":1.0,"name":"a"},"s":-1}`,
	}
	bits := []string{
		`,`, `{`, `}`, `[`, `]`, `"`, `:`, `null`, ` `, `0`, `-`, `1`, `\`, `\u0061`, "\x00", "\xff", "\xe2\x80\xa8", `e5`, `.0`, `99999999999999999999`, `true`,
		`"a":1,`, `"spec":{},`, `,"a":1`,
	}
	read := 0
	for range 30000 {
		text := seeds[random.IntN(len(seeds))]
		for range random.IntN(3) {
			at := random.IntN(len(text))
			end := min(at+random.IntN(4), len(text))
			with := bits[random.IntN(len(bits))]
			switch random.IntN(3) {
			case 0:
				text = text[:at] + with + text[at:]
			case 1:
				text = text[:at] + text[end:]
			default:
				text = text[:at] + with + text[end:]
			}
		}
		o, ok := ParseObject(text)
		if !ok {
			continue
		}
		read++
		var want map[string]any
		strict, err := kjson.UnmarshalStrict([]byte(text), &want)
		if err != nil || len(strict) > 0 {
			t.Errorf("%q is read, but: %v %v", text, err, strict)
			continue
		}
		var described metav1.ObjectMeta
		metadata, err := json.Marshal(want["metadata"])
		if err != nil {
			t.Fatal(err)
		}
		if strict, err := kjson.UnmarshalStrict(metadata, &described); err != nil || len(strict) > 0 {
			t.Errorf("%q: %v %v", text, err, strict)
			continue
		}
		if a, b := string(appendMetadata(nil, o.Metadata(), "")), string(appendMetadata(nil, &described, "")); a != b {
			t.Errorf("%q: metadata %s, want %s", text, a, b)
		}
		got := o.Tree().Object
		delete(got, "metadata")
		delete(want, "metadata")
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q became %v, want %v", text, got, want)
		}
	}
	if read < 500 {
		t.Errorf("only %d texts were read", read)
	}
}

func TestAnObjectTakesAnotherVersionOfTheSameLength(t *testing.T) {
	o, ok := ParseObject(`{"apiVersion":"example.com-v1","kind":"Thing","metadata":{"name":"a"}}`)
	if !ok {
		t.Fatal("it is not read")
	}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"})
	if version, _ := o.Said(); version != "example.com/v1" {
		t.Errorf("it says %s", version)
	}
}

func TestAPartWithoutANameIsRefused(t *testing.T) {
	o, ok := ParseObject(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"}}`)
	if !ok || o.Set("", "x") {
		t.Error("it would come after the metadata, where Append writes it first")
	}
}
