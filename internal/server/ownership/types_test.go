package ownership

import (
	"bytes"
	"encoding/gob"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/schema"

	"github.com/millrace/millrace/internal/server/ownership/internal/published"
)

// TestTheKeptSchemaIsTheLibrarys fails when the kept schema is older than the library: then go generate must be run.
func TestTheKeptSchemaIsTheLibrarys(t *testing.T) {
	kept, err := types()
	if err != nil {
		t.Fatal(err)
	}
	library, err := published.Types()
	if err != nil {
		t.Fatal(err)
	}
	have, want := typesOf(t, kept), library
	if len(have) != len(want) {
		t.Fatalf("%d types are kept, the library has %d", len(have), len(want))
	}
	for i := range want {
		if have[i].Name != want[i].Name || !bytes.Equal(encoded(t, have[i]), encoded(t, want[i])) {
			t.Errorf("type %s is kept otherwise, as %s", want[i].Name, have[i].Name)
		}
	}
}

func typesOf(t *testing.T, c managedfields.TypeConverter) []schema.TypeDef {
	t.Helper()
	pod := &corev1.Pod{}
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	typed, err := c.ObjectToTyped(pod)
	if err != nil {
		t.Fatal(err)
	}
	return typed.Schema().Types
}

// encoded is a type without what the library has remembered in it.
func encoded(t *testing.T, d schema.TypeDef) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := gob.NewEncoder(&out).Encode(d); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func BenchmarkTheSchemaIsRead(b *testing.B) {
	for b.Loop() {
		if _, err := readTypes(); err != nil {
			b.Fatal(err)
		}
	}
}
