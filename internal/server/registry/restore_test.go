package registry

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/store/memory"
)

func TestAfterARestoreNothingWaitsForWhatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		restored := memory.New(memory.Options{})
		defer restored.Close()
		w := newWorld(t, 0)
		w.create(20)
		if _, err := w.maps.Create(t.Context(), "default", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "own"}}, WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		before := w.maps.Wrote()
		synctest.Wait()
		w.inner.Restore(restored) // the watch on the former store stays, and is silent
		if _, err := restored.Create(t.Context(), w.maps.key("default", "kept"), []byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"kept","namespace":"default"}}`), 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if wrote := w.maps.Wrote(); wrote != 0 || before == 0 {
			t.Errorf("this server's last write is said to be %d, and was %d", wrote, before)
		}
		if o, err := w.maps.Get(t.Context(), "default", "kept", Freshness{}); err != nil || o.Revision >= before {
			t.Errorf("read %v, %v", o, err)
		}
		if _, err := w.maps.Get(t.Context(), "default", "own", Freshness{}); !apierrors.IsNotFound(err) {
			t.Errorf("an object that is gone: %v", err)
		}
		if _, err := w.maps.Watch(t.Context(), WatchQuery{Freshness: Freshness{Revision: before}}); !apierrors.IsResourceExpired(err) {
			t.Errorf("a watch from before the restore: %v", err)
		}
		if _, err := w.maps.Create(t.Context(), "default", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "own"}}, WriteOptions{}); err != nil {
			t.Errorf("a write: %v", err)
		}
		if wrote := w.maps.Wrote(); wrote == 0 || wrote >= before {
			t.Errorf("after the write the last one is said to be %d", wrote)
		}
	})
}

func TestAWatchFromARevisionThatAnotherServerGaveBegins(t *testing.T) {
	for _, uncached := range [][]string{nil, {"configmaps"}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 0, uncached...)
			w.create(3)
			release := w.store.Hold()
			w.add("b")
			rev, err := w.inner.Revision(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			watcher, err := w.maps.Watch(t.Context(), WatchQuery{Freshness: Freshness{Revision: rev}})
			if err != nil {
				t.Fatal(err)
			}
			defer watcher.Close()
			release()
			if _, err := w.maps.Watch(t.Context(), WatchQuery{Freshness: Freshness{Revision: rev + 1}}); !apierrors.IsResourceExpired(err) {
				t.Errorf("a watch from a revision that nobody gave: %v", err)
			}
		})
	}
}
