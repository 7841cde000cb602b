package guarantees_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/store"
)

// readPages writes, lists at once, and reads pages while others write.
func (w *world) readPages(ctx context.Context, c *client, random *rand.Rand) {
	for n := 0; ctx.Err() == nil; n++ {
		s := w.selector(random)
		o := resources["configmaps"].make()
		o.SetName(fmt.Sprintf("r%d-%d", random.Uint32(), n))
		o.SetAnnotations(map[string]string{valueAnnotation: o.GetName()})
		done, err := c.create(ctx, "configmaps", o)
		if err != nil {
			continue
		}
		whole, ok := w.pages(ctx, c, s, int64(1+random.IntN(7)))
		if !ok {
			time.Sleep(again)
			continue
		}
		if written := revisionOf(done.GetResourceVersion()); whole.rev < written {
			w.t.Errorf("Linearizable: %v is listed at %d after a write at %d", s, whole.rev, written)
		}
		w.keep(lists{"One snapshot", s, whole.rev, whole.items})
		if err := c.delete(ctx, "configmaps", done); err != nil && !w.isFault(err) {
			w.t.Errorf("CAS: nobody else deletes %s: %v", done.GetName(), err)
		}
	}
}

// pages reads all pages of a list.
func (w *world) pages(ctx context.Context, c *client, s selector, limit int64) (page, bool) {
	whole := page{items: map[string]version{}}
	o := metav1.ListOptions{Limit: limit}
	for {
		p, err := c.list(ctx, s, o)
		if err != nil {
			return page{}, false
		}
		if whole.rev == 0 {
			whole.rev = p.rev
		}
		if p.rev != whole.rev {
			w.t.Errorf("One snapshot: a page of %v at %d follows one at %d", s, p.rev, whole.rev)
			return page{}, false
		}
		for name, v := range p.items {
			if _, twice := whole.items[name]; twice {
				w.t.Errorf("One snapshot: %s is on two pages of %v", name, s)
			}
			whole.items[name] = v
		}
		if o.Continue = p.next; p.next == "" {
			return whole, true
		}
	}
}

// readPast reads past states, with resourceVersionMatch Exact and NotOlderThan.
func (w *world) readPast(ctx context.Context, c *client, random *rand.Rand) {
	for ctx.Err() == nil {
		s := w.selector(random)
		rev := max(1, w.truth.at()-store.Revision(random.IntN(200))+5)
		o := metav1.ListOptions{ResourceVersion: rev.String(), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}
		exact := random.IntN(2) == 0
		if exact {
			o.ResourceVersionMatch = metav1.ResourceVersionMatchExact
		}
		p, err := c.list(ctx, s, o)
		switch {
		case err != nil:
			if !w.isFault(err) && !apierrors.IsResourceExpired(err) && ctx.Err() == nil {
				w.t.Errorf("%v at %d: %v", s, rev, err)
			}
			time.Sleep(again)
			continue
		case exact && p.rev != rev:
			w.t.Errorf("Exact: %v is asked for at %d and given at %d", s, rev, p.rev)
		case p.rev < rev:
			w.t.Errorf("NotOlderThan: %v is asked for at %d and given at %d", s, rev, p.rev)
		}
		w.keep(lists{"Exact and NotOlderThan", s, p.rev, p.items})
	}
}
