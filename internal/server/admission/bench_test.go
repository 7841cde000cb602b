package admission_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/server/admission"
	"github.com/millrace/millrace/internal/server/registry"
)

// A create that no plugin, webhook or policy has anything to say about.
func BenchmarkCreate(b *testing.B) {
	w := newServer(b, admission.Options{})
	s := w.Of("configmaps")
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		o := &corev1.ConfigMap{ObjectMeta: meta(fmt.Sprintf("c%d", n)), Data: map[string]string{"a": "b"}}
		if _, err := s.Create(context.Background(), "n", o, registry.WriteOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}
