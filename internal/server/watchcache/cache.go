package watchcache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/server/store"
)

// Options configures a cache. The zero value is usable.
type Options struct {
	// Root is the prefix whose log is read; "/registry/" if empty.
	Root string
	// Logger receives messages about fills and about a lost log; nil means discard.
	Logger *slog.Logger
	// WindowEvents and WindowBytes bound each kind's history, unless the kind sets its own bounds. Zero means 100,000
	// events and 32 MiB. WindowBytes counts only what the history alone keeps alive: old versions of objects.
	WindowEvents int
	WindowBytes  int
	// WindowAge bounds each kind's history as well, but the newest events of a kind stay however old they are. Zero
	// means five minutes, which is how long Kubernetes keeps past states.
	WindowAge time.Duration
	// FormBudget bounds the bytes of the forms of all kinds. Zero means 96 MiB; if it is negative, no forms are kept.
	FormBudget int
	// PageSize is the number of entries in each list while the cache is filled. If zero, it depends on the size of the
	// entries.
	PageSize int
	// Backoff returns how long to wait after the n-th consecutive failure; n starts at 1. If nil, the time doubles from
	// 50 ms to 5 s, with jitter.
	Backoff func(n int) time.Duration
}

func (o Options) withDefaults() Options {
	if o.Root == "" {
		o.Root = "/registry/"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.WindowEvents == 0 {
		o.WindowEvents = 100_000
	}
	if o.WindowBytes == 0 {
		o.WindowBytes = 32 << 20
	}
	if o.WindowAge == 0 {
		o.WindowAge = 5 * time.Minute
	}
	if o.FormBudget == 0 {
		o.FormBudget = 96 << 20
	}
	if o.Backoff == nil {
		o.Backoff = backoff
	}
	return o
}

func backoff(n int) time.Duration {
	d := 50 * time.Millisecond << min(n-1, 7)
	return min(d/2+rand.N(d), 5*time.Second)
}

// Cache is the state and the history of all kinds of one store.
type Cache struct {
	store   store.Store
	options Options
	log     *slog.Logger

	reached frontier
	newest  sharedRead
	forms   *formBudget
	intern  interner
	ready   chan struct{} // closed after the first fill
	added   chan struct{} // wakes Run when a kind was added
	lost    atomic.Pointer[error]
	running atomic.Bool
	// compacted is the revision before which the store keeps no states.
	compacted atomic.Int64
	ended     chan struct{} // closed when Run has ended

	refills, resumes, batches atomic.Int64
	// letGo ends the reading of the log.
	letGo atomic.Pointer[context.CancelCauseFunc]

	// mu guards changes of routes; reading them needs no lock. It is locked before a kind's mu.
	mu      sync.Mutex
	stopped bool
	routes  atomic.Pointer[routes]
	// replaced are called when the store went back to an older state.
	replaced []func()
}

var errNotBegun = errors.New("the log is not being read yet")

// New makes a cache. It starts nothing: see Run.
func New(s store.Store, o Options) *Cache {
	o = o.withDefaults()
	c := &Cache{
		store: s, options: o, log: o.Logger,
		forms: &formBudget{limit: max(0, o.FormBudget)},
		ready: make(chan struct{}), ended: make(chan struct{}), added: make(chan struct{}, 1),
	}
	c.routes.Store(new(routes))
	c.lost.Store(&errNotBegun)
	return c
}

// Add adds a kind and does not wait until it is filled. Run fills it: in the first fill if that has not started,
// otherwise while it follows the log. The prefix of one kind must not contain that of another.
func (c *Cache) Add(o KindOptions) (*Kind, error) {
	if err := o.check(c.options.Root); err != nil {
		return nil, err
	}
	if o.WindowEvents == 0 {
		o.WindowEvents = c.options.WindowEvents
	}
	if o.WindowBytes == 0 {
		o.WindowBytes = c.options.WindowBytes
	}
	k := &Kind{cache: c, options: o, ready: make(chan struct{}), ended: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return nil, fmt.Errorf("add %s: %w", o.Name, ErrStopped)
	}
	r, err := c.routes.Load().with(k)
	if err != nil {
		return nil, err
	}
	c.routes.Store(r)
	select {
	case c.added <- struct{}{}:
	default: // Run has been woken already
	}
	return k, nil
}

// Remove removes a kind. Its cursors end with ErrGone. Its prefix may then be added again.
func (c *Cache) Remove(k *Kind) {
	c.mu.Lock()
	c.routes.Store(c.routes.Load().without(k))
	c.mu.Unlock()
	k.finishAndWake(endGone)
}

// Kinds returns the kinds in the order in which they were added.
func (c *Cache) Kinds() []*Kind { return c.routes.Load().kinds }

// Ready reports whether the first fill is done.
func (c *Cache) Ready() bool {
	select {
	case <-c.ready:
		return true
	default:
		return false
	}
}

// WaitReady waits for the first fill.
func (c *Cache) WaitReady(ctx context.Context) error {
	select {
	case <-c.ready:
		return nil
	case <-c.ended:
		return ErrStopped
	case <-ctx.Done():
		return fmt.Errorf("%w: %w: %w", ErrNotReady, c.Lost(), context.Cause(ctx))
	}
}

// Lost returns nil while the store's log is being read, otherwise the reason why it is not.
func (c *Cache) Lost() error { return *c.lost.Load() }

// Revision returns the revision that the cache has reached: all changes of all kinds up to it have been applied.
func (c *Cache) Revision() store.Revision { return c.reached.load() }

// WaitFor waits until the cache has reached a revision.
func (c *Cache) WaitFor(ctx context.Context, rev store.Revision) error {
	return c.reached.wait(ctx, rev)
}

// Fresh asks the store for its revision, waits until the cache has reached it, and returns it. What is read from the
// cache afterwards includes every write that was acknowledged before the call. It fails if the store does not answer.
func (c *Cache) Fresh(ctx context.Context) (store.Revision, error) {
	rev, err := c.Newest(ctx)
	if err != nil {
		return 0, err
	}
	return rev, c.WaitFor(ctx, rev)
}

// Newest asks the store for its revision. Concurrent callers share a request. If the answer is lower than what the
// cache had reached before, the store was restored: the call fails, and the cache is filled again.
func (c *Cache) Newest(ctx context.Context) (store.Revision, error) {
	reached := c.Revision()
	rev, err := c.newest.ask(ctx, c.store.Revision)
	if err != nil {
		return 0, fmt.Errorf("ask the store for its revision: %w", err)
	}
	if rev < reached {
		err := fmt.Errorf("%w: from %d to %d", errWentBack, reached, rev)
		if letGo := c.letGo.Load(); letGo != nil {
			(*letGo)(err)
		}
		return 0, err
	}
	return rev, nil
}

// OnReplaced has f called when the store went back to an older state, before the cache shows that: revisions that were
// noted before mean nothing any more.
func (c *Cache) OnReplaced(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replaced = append(c.replaced, f)
}

func (c *Cache) forgetRevisions() {
	c.mu.Lock()
	all := c.replaced
	c.mu.Unlock()
	for _, f := range all {
		f()
	}
}

// routes find the kind of a key. They are immutable.
type routes struct {
	kinds    []*Kind
	byPrefix map[string]*Kind
}

func (r *routes) with(k *Kind) (*routes, error) {
	for _, other := range r.kinds {
		a, b := k.options.Prefix, other.options.Prefix
		if strings.HasPrefix(a, b) || strings.HasPrefix(b, a) {
			return nil, fmt.Errorf("kind %s: prefix %q is within %q of %s or the other way round",
				k.options.Name, a, b, other.options.Name)
		}
	}
	return newRoutes(append(r.kinds[:len(r.kinds):len(r.kinds)], k)), nil
}

func (r *routes) without(k *Kind) *routes {
	var left []*Kind
	for _, other := range r.kinds {
		if other != k {
			left = append(left, other)
		}
	}
	return newRoutes(left)
}

func newRoutes(kinds []*Kind) *routes {
	r := &routes{kinds: kinds, byPrefix: make(map[string]*Kind, len(kinds))}
	for _, k := range kinds {
		r.byPrefix[k.options.Prefix] = k
	}
	return r
}

// find returns the kind of a key below root, or nil.
func (r *routes) find(root, key string) *Kind {
	for end := len(root); end < len(key); {
		slash := strings.IndexByte(key[end:], '/')
		if slash < 0 {
			return nil
		}
		end += slash + 1
		if k := r.byPrefix[key[:end]]; k != nil {
			return k
		}
	}
	return nil
}
