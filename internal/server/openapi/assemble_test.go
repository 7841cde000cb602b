package openapi

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/server/resource"
)

// custom returns a custom kind, with some fields.
func custom(name string, fields int) *resource.Kind {
	k := resource.Define(resource.Description[*corev1.ConfigMap]{Group: name + ".example.com", Version: "v1", Kind: name, Resource: name + "s"})
	k.Custom = true
	k.ShortNames = []string{fmt.Sprint(fields)} // where the test's schema finds it
	return k
}

// What is made of the pieces of earlier documents is what would be made without them.
func TestADocumentOfPiecesIsTheWholeDocument(t *testing.T) {
	d := documents(t)
	d.o.Schema = func(f *resource.Face) *Schema {
		s := &Schema{Type: "object"}
		for i := range len(f.Of.ShortNames[0]) {
			s.Properties = append(s.Properties, Property{fmt.Sprint("field", i, f.Of.ShortNames[0]), Schema{Type: "string"}})
		}
		return s
	}
	kinds := map[string]*resource.Kind{}
	var foreign []Foreign
	check := func(what string) {
		t.Helper()
		for _, f := range []form{{v2: true}, {v2: true, proto: true}} {
			text, hash, err := d.assemble(f, foreign)
			if err != nil {
				t.Fatal(err)
			}
			z, err := gzip.NewReader(bytes.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			z.Multistream(false) // some clients read the first stream only
			got, err := io.ReadAll(z)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			var want bytes.Buffer
			if err := d.document(d.facesOf(everything), plainPaths(d.facesOf(everything)), foreign).write(f.writer(&want)); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want.Bytes()) {
				t.Fatalf("%s: the document in the form %+v has %d bytes, and should have %d", what, f, len(got), want.Len())
			}
			if !f.proto && !json.Valid(got) {
				t.Fatalf("%s: it is no JSON", what)
			}
			if what != "with one less" {
				continue
			}
			other := New(d.o)
			if _, fresh, err := other.assemble(f, foreign); err != nil || fresh != hash {
				t.Fatalf("%s: its hash is %s, that of another server %s: %v", what, hash, fresh, err)
			}
			other.Close()
		}
	}
	change := func(name string, fields int) {
		t.Helper()
		kinds[name] = custom(name, fields)
		if err := d.o.Catalogue.Exchange(kinds[name].GroupResource(), kinds[name]); err != nil {
			t.Fatal(err)
		}
	}
	check("without custom kinds")
	change("bar", 1)
	check("with one")
	change("foo", 1)
	change("aaa", 1)
	check("with three")
	change("foo", 22)
	check("with a change")
	foreign = []Foreign{{Group: "wardle.example", Tag: "1", Text: []byte(wardle)}}
	check("with another server")
	if err := d.o.Catalogue.Exchange(kinds["aaa"].GroupResource()); err != nil {
		t.Fatal(err)
	}
	check("with one less")
}
