package registry

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/server/store"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func TestPageOfARevisionOutsideTheWindowReadsOnlyAPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 10)
		w.create(100)
		first := w.list(ListQuery{Limit: 7})
		for range 150 { // more than fit into the window
			w.touch("a-0099")
		}
		w.store.largest.Store(0)
		seen := len(first.Objects)
		for next := first.Continue; next != ""; {
			page := w.list(ListQuery{Limit: 7, Continue: next})
			if page.Revision != first.Revision {
				t.Errorf("a page shows revision %d instead of %d", page.Revision, first.Revision)
			}
			for i, o := range page.Objects {
				if want := fmt.Sprintf("a-%04d", seen+i); o.Name() != want {
					t.Errorf("%s instead of %s", o.Name(), want)
				}
			}
			seen += len(page.Objects)
			if next = page.Continue; next != "" && int(page.Remaining) != 100-seen {
				t.Errorf("%d remain of %d, after %d", page.Remaining, 100, seen)
			}
		}
		if n := w.store.largest.Load(); seen != 100 || n == 0 || n > 8 {
			t.Errorf("%d were seen, in pages of up to %d from the store", seen, n)
		}
	})
}

// touch changes a config map.
func (w *world) touch(name string) {
	w.t.Helper()
	key := w.maps.key("default", name)
	e, err := w.inner.Get(w.t.Context(), key, store.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.inner.Update(w.t.Context(), key, e.Value, e.Revision, 0); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

func TestSelectedObjectsOfAnOldRevisionAreReadPageByPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 10)
		w.create(1500)
		synctest.Wait()
		now := w.cache.Revision()
		for range 150 {
			w.touch("a-0099")
		}
		w.store.largest.Store(0)
		none := labels.SelectorFromSet(labels.Set{"no": "such"})
		q := ListQuery{Selection: Selection{labels: none}, Freshness: Freshness{Revision: now, Exact: true}, Limit: 1000}
		if page := w.list(q); len(page.Objects) != 0 || page.Continue != "" || page.Revision != now {
			t.Errorf("%d objects, then %q", len(page.Objects), page.Continue)
		}
		if all := w.list(ListQuery{Freshness: Freshness{Revision: now, Exact: true}}); len(all.Objects) != 1500 {
			t.Errorf("%d objects", len(all.Objects))
		}
		if n := w.store.largest.Load(); n > 1001 {
			t.Errorf("a page of %d", n)
		}
	})
}

// TestListThatGoesOnAfterItsTokenExpiredCountsWhatRemains reads with a watch cache, and without.
func TestListThatGoesOnAfterItsTokenExpiredCountsWhatRemains(t *testing.T) {
	for _, uncached := range []string{"", "*"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 10, uncached)
			w.create(40)
			first := w.list(ListQuery{Limit: 4})
			for range 150 {
				w.touch("a-0039")
			}
			now, err := w.inner.Revision(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := w.inner.Compact(t.Context(), now); err != nil {
				t.Fatal(err)
			}
			_, err = w.maps.List(t.Context(), ListQuery{Selection: Selection{Namespace: "default"}, Limit: 4, Continue: first.Continue})
			if !apierrors.IsResourceExpired(err) {
				t.Fatal(err)
			}
			next := err.(apierrors.APIStatus).Status().Continue
			for found := 4; next != ""; {
				page := w.list(ListQuery{Limit: 4, Continue: next})
				if found += len(page.Objects); page.Continue != "" && found+int(page.Remaining) != 40 {
					t.Errorf("%d were found, and %d remain of 40", found, page.Remaining)
				}
				next = page.Continue
			}
		})
	}
}

func TestReadsGoToTheStoreWhileTheCacheIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 100)
		w.create(3)
		synctest.Wait()
		release := w.store.Hold()
		w.add("b-0000")
		begun := time.Now()
		if _, err := w.maps.Get(t.Context(), "default", "b-0000", Freshness{}); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took != futureWait {
			t.Errorf("the first read took %v", took)
		}
		if page := w.list(ListQuery{}); len(page.Objects) != 4 {
			t.Errorf("%d objects", len(page.Objects))
		}
		if took := time.Since(begun); took != futureWait+stalledWait {
			t.Errorf("the second read took %v", took)
		}
		release()
		synctest.Wait()
		begun = time.Now()
		if page := w.list(ListQuery{}); len(page.Objects) != 4 || time.Since(begun) != 0 {
			t.Errorf("%d objects after %v", len(page.Objects), time.Since(begun))
		}
	})
}

func TestAReadOfAnyStateDoesNotWaitForTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 100)
		w.create(1)
		synctest.Wait()
		defer w.store.Hold()()
		w.add("b-0000")
		begun := time.Now()
		if _, err := w.maps.Get(t.Context(), "default", "b-0000", Freshness{Any: true}); !apierrors.IsNotFound(err) {
			t.Errorf("any state shows what the log has not told: %v", err)
		}
		if _, err := w.maps.Get(t.Context(), "default", "b-0000", Freshness{Stored: true}); err != nil {
			t.Errorf("the store: %v", err)
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("the reads took %v", took)
		}
	})
}

func TestANameInUseIsRefusedWhileTheLogIsHeld(t *testing.T) {
	w := newWorld(t, 0)
	other := w.again()
	defer w.store.Hold()()
	other.add("x")
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	if _, err := w.maps.Create(t.Context(), "default", o, WriteOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("the create: %v", err)
	}
}
