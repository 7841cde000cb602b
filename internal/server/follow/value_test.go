package follow_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/follow"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/registry/registrytest"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/memory"
	"github.com/millrace/millrace/internal/server/store/storetest"
)

var configMaps = schema.GroupResource{Resource: "configmaps"}

// create creates a config map, and returns its revision.
func create(t *testing.T, r *registry.Registry, name, says string) store.Revision {
	t.Helper()
	kind, _ := r.Catalogue.Kind(configMaps)
	s, err := r.Storage(kind)
	if err != nil {
		t.Fatal(err)
	}
	o, err := s.Create(t.Context(), "n", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"says": says}}, registry.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return o.Entry.Revision
}

// In the restored store the same revision of the same name is another object.
func TestAfterARestoreNothingIsKeptOfTheFormerState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		former, restored := memory.New(memory.Options{}), memory.New(memory.Options{})
		defer former.Close()
		defer restored.Close()
		behind := storetest.NewRestorable(former)
		r := registrytest.Open(t, behind)
		index := follow.NewValue(follow.ValueOptions[string]{
			Registry: r, Kinds: []schema.GroupResource{configMaps}, Shared: true,
			Make: func(all []resource.Object) string {
				said := ""
				for _, o := range all {
					said += o.(*corev1.ConfigMap).Data["says"]
				}
				return said
			},
		})
		defer index.Close()
		before := create(t, r, "m", "former")
		create(t, r, "later", "")
		if got, err := index.Now(t.Context()); err != nil || got != "former" {
			t.Fatalf("got %q, %v", got, err)
		}
		if after := create(t, registrytest.Open(t, restored), "m", "restored"); after != before {
			t.Fatalf("the object has revision %d, and had %d", after, before)
		}
		behind.Restore(restored)
		time.Sleep(time.Minute)
		if got, err := index.Now(t.Context()); err != nil || got != "restored" {
			t.Errorf("after the restore: got %q, %v", got, err)
		}
	})
}
