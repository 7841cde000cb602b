package webhooks_test

import (
	"fmt"
	"testing"

	"github.com/millrace/millrace/internal/server/admission/internal/admissiontest"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// BenchmarkCreate creates a config map in a dry run: with no webhook, with one validating webhook on this machine, and
// with a hundred that are about something else. The differences are what webhooks cost.
func BenchmarkCreate(b *testing.B) {
	for _, test := range []struct {
		name string
		set  func(*world)
	}{
		{"none", func(*world) {}},
		{"one", func(w *world) { w.validating("v", newHook(b, allow), rule("", "v1", "configmaps")) }},
		{"a hundred of others", func(w *world) {
			h := newHook(b, allow)
			for i := range 100 {
				w.validating(fmt.Sprintf("v%d", i), h, rule("", "v1", "secrets"))
			}
		}},
	} {
		b.Run(test.name, func(b *testing.B) {
			w := newWorld(b, nil)
			test.set(w)
			s := w.Of("configmaps")
			ctx := resource.WithCall(b.Context(), resource.Call{User: "alice"})
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Create(ctx, "n", admissiontest.ConfigMap("c", "k", "v"), registry.WriteOptions{DryRun: true}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
