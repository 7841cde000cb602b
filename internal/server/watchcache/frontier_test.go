package watchcache

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/internal/server/store"
)

func TestFrontierWakesOnlyWaitersWhoseRevisionIsReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f frontier
		woken := make(map[store.Revision]*atomic.Bool)
		ctx, cancel := context.WithCancel(t.Context())
		for _, rev := range []store.Revision{5, 3, 9, 4, 7} {
			here := new(atomic.Bool)
			woken[rev] = here
			go func() {
				if err := f.wait(ctx, rev); err == nil {
					here.Store(true)
				} else if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}()
		}
		for _, step := range []struct {
			to   store.Revision
			left int
		}{{2, 5}, {3, 4}, {6, 2}} {
			synctest.Wait()
			f.set(step.to)
			synctest.Wait()
			if len(f.waiters) != step.left {
				t.Errorf("at %d there are %d left, want %d", step.to, len(f.waiters), step.left)
			}
		}
		for rev, here := range woken {
			if here.Load() != (rev <= 6) {
				t.Errorf("the goroutine that waits for %d was woken: %v", rev, here.Load())
			}
		}
		cancel()
		synctest.Wait()
		if len(f.waiters) != 0 {
			t.Errorf("%d are still waited for", len(f.waiters))
		}
	})
}
