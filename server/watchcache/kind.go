package watchcache

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/millrace/millrace/server/store"
)

// KindOptions describe a kind to the cache.
type KindOptions struct {
	// Name is the group-resource, for logs and metrics.
	Name string
	// Prefix is what all keys of the kind begin with. It ends with a slash.
	Prefix string
	// Fields are the names of the selectable fields, in the order of Attributes.Fields.
	Fields []string
	// Indexed says which fields have topics of their own.
	Indexed []int
	// Namespaced kinds have keys of prefix, namespace, slash and name; others of prefix and name.
	Namespaced bool
	// Attributes reads from stored bytes what selectors ask for. It is called once for each version, and from two
	// goroutines while the kind is filled. What it returns may point into value. Nil means that objects have no
	// attributes; after an error the object is kept without.
	Attributes func(key string, value []byte) (Attributes, error)
	// WindowEvents and WindowBytes bound the history; zero means as the cache's options say.
	WindowEvents int
	WindowBytes  int
}

func (o KindOptions) check(root string) error {
	switch {
	case o.Name == "":
		return fmt.Errorf("kind with prefix %q has no name", o.Prefix)
	case !strings.HasPrefix(o.Prefix, root) || !strings.HasSuffix(o.Prefix, "/") || len(o.Prefix) <= len(root):
		return fmt.Errorf("kind %s: prefix %q does not begin with %q and end with a slash", o.Name, o.Prefix, root)
	}
	for _, i := range o.Indexed {
		if i < 0 || i >= len(o.Fields) {
			return fmt.Errorf("kind %s: field %d is indexed, but there are %d", o.Name, i, len(o.Fields))
		}
	}
	return nil
}

// Kind is the state and the history of one kind.
type Kind struct {
	cache   *Cache
	options KindOptions
	ready   chan struct{} // closed when the kind is filled for the first time
	ended   chan struct{} // closed when there will be no more

	cursors    atomic.Int64
	broad      atomic.Int64 // those cursors that see each event
	events     atomic.Int64
	complaints atomic.Int64 // about values, or their attributes, that cannot be read

	// mu guards what follows. It is held for the time of a change and of a look into the tree, and while it is held no
	// other lock is taken but that of the form budget.
	mu    sync.Mutex
	state tree
	// unreadable are keys that have a value which cannot be read. They are not in state.
	unreadable unreadable
	frozen     *tree // a frozen copy of state, if somebody asked for it since the last change
	rev        store.Revision
	history    *history // nil until the kind is filled
	end        *link    // why there will be no more, or nil
	past       past
	pending    []change // what came before the kind was filled
	// restedAt is how many events there had been when values were put to rest last, restless that not all were.
	restedAt int64
	restless bool

	fresh []change // the changes of the batch that is being read; the writer's own
}

// Name returns the kind's name.
func (k *Kind) Name() string { return k.options.Name }

// Options returns what the kind was added with, and the bounds of its window.
func (k *Kind) Options() KindOptions { return k.options }

// Ready tells whether the kind has been filled.
func (k *Kind) Ready() bool {
	select {
	case <-k.ready:
		return true
	default:
		return false
	}
}

// WaitReady waits until the kind is filled, or never will be.
func (k *Kind) WaitReady(ctx context.Context) error {
	select {
	case <-k.ready:
		return nil
	case <-k.ended:
		k.mu.Lock()
		defer k.mu.Unlock()
		return fmt.Errorf("%s: %w", k.options.Name, endError(k.end))
	case <-ctx.Done():
		return fmt.Errorf("%s: %w: %w", k.options.Name, ErrNotReady, context.Cause(ctx))
	}
}

// Get returns the newest version of an object.
func (k *Kind) Get(key string) (*Object, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	o := k.state.get(key)
	return o, o != nil
}

// Snapshot returns the newest state. It is empty, and its revision zero, until the kind is ready.
func (k *Kind) Snapshot() Snapshot {
	reached := k.cache.Revision() // before the state is looked at, which then is at least as new
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.snapshotLocked(reached)
}

func (k *Kind) snapshotLocked(reached store.Revision) Snapshot {
	if k.history == nil {
		return Snapshot{}
	}
	if k.frozen == nil {
		t := k.state.freeze()
		k.frozen = &t
	}
	if k.end != nil { // the cache goes on without this kind
		reached = 0
	}
	return Snapshot{state: k.frozen, rev: max(reached, k.rev)}
}

// Watch returns a cursor for every event of the topic after from. If from is beyond the cache's revision, the events
// that come before it are left out.
func (k *Kind) Watch(from store.Revision, topic Topic) (*Cursor, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.servingLocked(); err != nil {
		return nil, fmt.Errorf("watch %s after %d: %w", k.options.Name, from, err)
	}
	if since := k.history.since; from < since {
		return nil, fmt.Errorf("watch %s after %d, window begins at %d: %w", k.options.Name, from, since, ErrExpired)
	}
	return k.newCursorLocked(topic, k.history.afterLocked(from), from), nil
}

// WatchFromNow returns the newest state and a cursor for every event of the topic after it.
func (k *Kind) WatchFromNow(topic Topic) (Snapshot, *Cursor, error) {
	reached := k.cache.Revision()
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.servingLocked(); err != nil {
		return Snapshot{}, nil, fmt.Errorf("watch %s: %w", k.options.Name, err)
	}
	s := k.snapshotLocked(reached)
	return s, k.newCursorLocked(topic, k.history.list.tail, s.rev), nil
}

func (k *Kind) servingLocked() error {
	switch {
	case k.end != nil:
		return endError(k.end)
	case k.history == nil:
		return ErrNotReady
	}
	return nil
}

// Watched is how many watches see each event of the kind, whatever it is about.
func (k *Kind) Watched() int { return int(k.broad.Load()) }

// threaded tells whether a topic has a list of its own.
func (k *Kind) threaded(t Topic) bool {
	switch t.class {
	case topicNamespace, topicKey:
		return true
	case topicField:
		return slices.Contains(k.options.Indexed, int(t.field))
	default:
		return false
	}
}
