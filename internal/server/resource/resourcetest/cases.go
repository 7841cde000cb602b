package resourcetest

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/millrace/millrace/internal/server/resource"
)

// Case is an object, optionally a change of it, and the expected errors: "reason field: message". Change is a strategic
// merge patch. It is made through the subresource View, or the main resource.
type Case struct {
	Name   string
	Body   string
	Change string
	View   string
	Want   []string
}

// Cases compares the errors of each case. A case without Want must be accepted.
func Cases(t *testing.T, kinds []*resource.Kind, cases []Case) {
	c := faces(t, kinds)
	for _, one := range cases {
		t.Run(one.Name, func(t *testing.T) {
			f := faceOf(t, c, one.Body)
			o, err := Decode(f, []byte(one.Body))
			if err != nil {
				t.Fatal(err)
			}
			errs := Create(f, o)
			if one.Change != "" {
				if len(errs) > 0 {
					t.Fatalf("refused before the change:%s", lines(Causes(errs)))
				}
				o.SetResourceVersion("1")
				changed, rules := Changed(t, f, o, one.Change), f.Of.Main
				if one.View != "" {
					rules = f.Of.Views[one.View]
				}
				errs = Update(f.Of, rules, changed, o)
			}
			if got := Causes(errs); !slices.Equal(got, one.Want) {
				t.Errorf("want%s\ngot%s", lines(one.Want), lines(got))
			}
		})
	}
}

// Asked compares the errors of a review: a kind that is only created and has no metadata.
func Asked(t *testing.T, kinds []*resource.Kind, body string, want []string) {
	t.Helper()
	f := faceOf(t, faces(t, kinds), body)
	o, err := Decode(f, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	if got := Causes(f.Of.Main.Validate(context.Background(), o)); !slices.Equal(got, want) {
		t.Errorf("want%s\ngot%s", lines(want), lines(got))
	}
}

// Changed returns the object with a strategic merge patch applied.
func Changed(t *testing.T, f *resource.Face, o resource.Object, patch string) resource.Object {
	t.Helper()
	before, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, []byte(patch), f.Of.New())
	if err != nil {
		t.Fatal(err)
	}
	changed := f.Of.New()
	if err := json.Unmarshal(after, changed); err != nil {
		t.Fatal(err)
	}
	return changed
}

// Made returns the object for a body, with what the server adds to it.
func Made(t *testing.T, kinds []*resource.Kind, body string) resource.Object {
	t.Helper()
	f := faceOf(t, faces(t, kinds), body)
	o, err := Decode(f, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	if errs := Create(f, o); len(errs) > 0 {
		t.Fatalf("refused:%s", lines(Causes(errs)))
	}
	return o
}

// Warned returns the warnings for the creation of a body.
func Warned(t *testing.T, kinds []*resource.Kind, body string) []string {
	t.Helper()
	o := Made(t, kinds, body)
	return faceOf(t, faces(t, kinds), body).Of.Main.Warnings(context.Background(), o, nil)
}

func faceOf(t *testing.T, c *resource.Catalogue, body string) *resource.Face {
	t.Helper()
	var head struct{ APIVersion, Kind string }
	if err := json.Unmarshal([]byte(body), &head); err != nil {
		t.Fatal(err)
	}
	gv, err := schema.ParseGroupVersion(head.APIVersion)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range c.Kinds() {
		for _, f := range k.Faces {
			if f.GroupVersionKind == gv.WithKind(head.Kind) {
				return f
			}
		}
	}
	t.Fatalf("no kind %s in %s", head.Kind, head.APIVersion)
	return nil
}
