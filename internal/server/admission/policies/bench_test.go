package policies_test

import (
	"fmt"
	"testing"

	"github.com/millrace/millrace/internal/server/admission/internal/admissiontest"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// BenchmarkThreeExpressions creates a config map that a policy of three expressions looks at, and one that no policy is
// about, with none and with a hundred policies: the differences are what policies cost.
func BenchmarkThreeExpressions(b *testing.B) {
	for _, test := range []struct {
		name string
		set  func(*world)
	}{
		{"none", func(*world) {}},
		{"one", func(w *world) {
			w.policy("p", expressions(`object.data.k == "v"`, `object.metadata.name.startsWith("c")`, `!has(object.metadata.labels) || object.metadata.labels.size() < 10`))
		}},
		{"a hundred of others", func(w *world) {
			for i := range 100 {
				w.policy(fmt.Sprintf("p%d", i), expressions("true"))
			}
		}},
	} {
		b.Run(test.name, func(b *testing.B) {
			w := newWorld(b)
			test.set(w)
			of := "configmaps"
			if test.name == "a hundred of others" {
				of = "endpoints"
			}
			s := w.Of(of)
			ctx := resource.WithCall(b.Context(), resource.Call{User: "alice"})
			b.ReportAllocs()
			for b.Loop() {
				var o resource.Object = admissiontest.ConfigMap("c", "k", "v")
				if of == "endpoints" {
					o = s.Kind().New()
					o.SetName("c")
					o.SetNamespace("n")
				}
				if _, err := s.Create(ctx, "n", o, registry.WriteOptions{DryRun: true}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
