package fairness

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/registry/registrytest"
	"github.com/millrace/millrace/internal/server/resource"
	memorystore "github.com/millrace/millrace/internal/server/store/memory"
	"github.com/millrace/millrace/internal/server/store/storetest"
)

func TestRequestsKeepTheirLevelWhileTheLogIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memorystore.New(memorystore.Options{})
		defer inner.Close()
		log := storetest.NewLateLog(inner)
		r, other := registrytest.Open(t, log), registrytest.Open(t, inner)
		create := func(of string, o resource.Object) {
			t.Helper()
			kind, _ := other.Catalogue.Kind(flowcontrolv1.Resource(of))
			s, err := other.Storage(kind)
			if err != nil {
				t.Fatal(err)
			}
			kind.Default(o)
			if _, err := s.Create(t.Context(), "", o, registry.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		d := New(Options{Registry: r})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = d.Run(ctx) })
		defer running.Wait()
		defer cancel()
		create("prioritylevelconfigurations", priority("l", 10, 0, 4, 2, 10))
		create("flowschemas", schemaFor("first", "l", 100, "", "u"))
		belongs := func(want string) {
			t.Helper()
			synctest.Wait()
			if got := d.Classify(get("u")).schema.name; got != want {
				t.Errorf("a request belongs to %s, expected %s", got, want)
			}
		}
		belongs("first")
		release := log.Hold()
		create("flowschemas", schemaFor("second", "l", 50, "", "u"))
		belongs("first")
		release()
		belongs("second")
	})
}
