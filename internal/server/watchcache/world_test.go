package watchcache_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/faults"
	"github.com/millrace/millrace/internal/server/store/memory"
	"github.com/millrace/millrace/internal/server/watchcache"
)

const (
	pods    = "/registry/pods/"
	nodes   = "/registry/nodes/"
	widgets = "/registry/example.com/widgets/"
)

// fieldNode is the indexed field of a pod; fieldPhase is not indexed.
const (
	fieldNode = iota
	fieldPhase
)

// attributes parses values of the form "app=web,tier=front|node-1|Running|anything".
func attributes(_ string, value []byte) (watchcache.Attributes, error) {
	parts := strings.SplitN(string(value), "|", 4)
	if len(parts) < 3 {
		return watchcache.Attributes{}, errors.New("value has no attributes")
	}
	var labels []watchcache.Label
	for pair := range strings.SplitSeq(parts[0], ",") {
		if k, v, ok := strings.Cut(pair, "="); ok {
			labels = append(labels, watchcache.Label{Key: k, Value: v})
		}
	}
	return watchcache.Attributes{Labels: watchcache.MakeLabels(labels), Fields: parts[1:3]}, nil
}

func kindOf(prefix string) watchcache.KindOptions {
	return watchcache.KindOptions{
		Name: strings.Trim(strings.TrimPrefix(prefix, "/registry/"), "/"), Prefix: prefix, Namespaced: prefix != nodes,
		Fields: []string{"spec.nodeName", "status.phase"}, Indexed: []int{fieldNode}, Attributes: attributes,
	}
}

// world is a cache on a store in memory that can be made to fail.
type world struct {
	*testing.T
	store *faults.Store
	cache *watchcache.Cache
	pods  *watchcache.Kind
	stop  context.CancelFunc
	ended sync.WaitGroup
}

func build(t *testing.T, o watchcache.Options, m memory.Options) *world {
	inner := memory.New(m)
	w := &world{T: t, store: faults.Wrap(inner)}
	w.cache = watchcache.New(w.store, o)
	w.pods = w.add(pods)
	t.Cleanup(func() {
		w.end()
		inner.Close()
	})
	return w
}

// run starts a world in a bubble of testing/synctest and waits until it is ready.
func run(t *testing.T, o watchcache.Options, test func(*world)) {
	synctest.Test(t, func(t *testing.T) {
		w := build(t, o, memory.Options{})
		w.start()
		test(w)
	})
}

func (w *world) start() {
	w.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w.stop = cancel
	w.ended.Go(func() {
		if err := w.cache.Run(ctx); !errors.Is(err, context.Canceled) {
			w.Errorf("Run ended with %v", err)
		}
	})
	w.must(w.cache.WaitReady(ctx))
}

func (w *world) end() {
	if w.stop != nil {
		w.stop()
	}
	w.ended.Wait()
}

func (w *world) add(prefix string) *watchcache.Kind {
	w.Helper()
	k, err := w.cache.Add(kindOf(prefix))
	w.must(err)
	return k
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) wants(err, want error) {
	w.Helper()
	if !errors.Is(err, want) {
		w.Fatalf("error is %v, want %v", err, want)
	}
}

// put writes a key, whether it exists or not, and does not wait for the cache.
func (w *world) put(key, value string) store.Revision {
	w.Helper()
	ctx := context.Background()
	rev, err := w.store.Create(ctx, key, []byte(value), 0)
	if errors.Is(err, store.ErrExists) {
		var e store.Entry
		e, err = w.store.Get(ctx, key, store.GetOptions{})
		w.must(err)
		rev, err = w.store.Update(ctx, key, []byte(value), e.Revision, 0)
	}
	w.must(err)
	return rev
}

func (w *world) delete(key string) store.Revision {
	w.Helper()
	e, err := w.store.Get(context.Background(), key, store.GetOptions{})
	w.must(err)
	rev, err := w.store.Delete(context.Background(), key, e.Revision)
	w.must(err)
	return rev
}

// settle waits until the cache has applied everything that was written.
func (w *world) settle() store.Revision {
	w.Helper()
	rev, err := w.cache.Fresh(context.Background())
	w.must(err)
	return rev
}

func (w *world) watch(k *watchcache.Kind, from store.Revision, topic watchcache.Topic) *watchcache.Cursor {
	w.Helper()
	c, err := k.Watch(from, topic)
	w.must(err)
	w.Cleanup(c.Close)
	return c
}

// read returns the events that a cursor has now.
func read(c *watchcache.Cursor) (lines []string, err error) {
	for {
		e, ok, err := c.Next()
		if !ok {
			return lines, err
		}
		lines = append(lines, line(e))
	}
}

func line(e *watchcache.Event) string {
	return fmt.Sprintf("%d %v %s", e.Revision, e.Type, e.Object.Name())
}

func (w *world) reads(c *watchcache.Cursor, want ...string) {
	w.Helper()
	got, err := read(c)
	w.must(err)
	if !slices.Equal(got, want) {
		w.Fatalf("cursor has\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func names(s watchcache.Snapshot) (names []string) {
	for o := range s.Range("", "") {
		names = append(names, o.Namespace()+"/"+o.Name())
	}
	return names
}
