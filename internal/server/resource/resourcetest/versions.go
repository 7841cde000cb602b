package resourcetest

import (
	"bytes"
	"context"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"

	kinds "github.com/millrace/millrace/internal/server/resource"
)

// Versions fills objects of every kind that has optional versions at random. It checks that an object is the same in
// such a version and in its own, but for the version itself, and that it can be read if it was stored in that version.
// In those named in other, fields have other places; it checks that objects survive the way there and back.
func Versions(t *testing.T, all []*kinds.Kind, other ...string) {
	const seed, rounds = 1, 20
	fill := filler(seed)
	for _, k := range all {
		for _, f := range k.Faces {
			if !f.Optional {
				continue
			}
			t.Run(f.Resource+"."+f.Version, func(t *testing.T) {
				for range rounds {
					o := k.New()
					fill.Fill(o)
					o.GetObjectKind().SetGroupVersionKind(k.GroupVersionKind())
					o.SetResourceVersion("")
					k.Default(o)
					inVersion(t, f, o, !slices.Contains(other, f.GroupVersion().String()))
				}
			})
		}
	}
}

func inVersion(t *testing.T, f *kinds.Face, o kinds.Object, alike bool) {
	t.Helper()
	there := f.From(o)
	text := marshal(t, there)
	if alike {
		own := bytes.Replace(marshal(t, o), []byte(f.Of.GroupVersion().String()), []byte(f.GroupVersion().String()), 1)
		if !bytes.Equal(text, own) {
			t.Errorf("in version %s\n%s\nwant\n%s", f.Version, text, own)
		}
	}
	stored, err := f.Of.Decode(context.Background(), text, "")
	if err != nil {
		t.Fatal(err)
	}
	if again := f.From(stored); !equality.Semantic.DeepEqual(again, there) {
		t.Errorf("there and back\n%s\nwant\n%s", marshal(t, again), text)
	}
}
