package registry

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/internal/server/store"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var ignoring = func() metav1.DeleteOptions {
	yes := true
	return metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: &yes}
}()

// ruin replaces the value of a config map by one that cannot be decrypted.
func (w *world) ruin(name string) {
	w.t.Helper()
	key := w.maps.key("default", name)
	e, err := w.inner.Get(w.t.Context(), key, store.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.inner.Update(w.t.Context(), key, []byte("broken value"), e.Revision, 0); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// TestValueThatCannotBeDecryptedAffectsOnlyItsObject has one such value in the log, and one while the cache is filled.
func TestValueThatCannotBeDecryptedAffectsOnlyItsObject(t *testing.T) {
	for name, refill := range map[string]bool{"in the log": false, "while the cache is filled": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 100)
				w.create(3)
				w.ruin("a-0001")
				if refill {
					w = w.again()
				}
				w.add("b-0000")
				synctest.Wait()
				if page := w.list(ListQuery{}); len(page.Objects) != 3 {
					t.Errorf("a list has %d objects", len(page.Objects))
				}
				_, err := w.maps.Get(t.Context(), "default", "a-0001", Freshness{})
				if !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "corrupt object") || !strings.Contains(err.Error(), errNoKey.Error()) {
					t.Errorf("get: %v", err)
				}
				if _, err := w.maps.Delete(t.Context(), "default", "a-0001", metav1.DeleteOptions{}, WriteOptions{}); !apierrors.IsInternalError(err) {
					t.Errorf("delete: %v", err)
				}
				if gone, err := w.maps.Delete(t.Context(), "default", "a-0001", ignoring, WriteOptions{}); err != nil || !gone.Gone {
					t.Errorf("delete that ignores it: %v", err)
				}
				synctest.Wait()
				if _, err := w.maps.Get(t.Context(), "default", "a-0001", Freshness{}); !apierrors.IsNotFound(err) {
					t.Errorf("get after that: %v", err)
				}
			})
		})
	}
}

func TestReadableObjectIsNotDeletedAsACorruptOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 100)
		w.create(1)
		if _, err := w.maps.Delete(t.Context(), "default", "a-0000", ignoring, WriteOptions{}); !apierrors.IsConflict(err) {
			t.Error(err)
		}
		if _, err := w.maps.Delete(t.Context(), "default", "none", ignoring, WriteOptions{}); !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
}
