package watchcache

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/millrace/millrace/internal/server/store"
)

// KindOptions describes a kind to the cache.
type KindOptions struct {
	// Name is the group-resource, for logs and metrics.
	Name string
	// Prefix is what all keys of the kind begin with. It ends with a slash.
	Prefix string
	// Fields are the names of the selectable fields, in the order of Attributes.Fields.
	Fields []string
	// Indexed are the indexes of the fields that have topics of their own.
	Indexed []int
	// Namespaced says that keys consist of prefix, namespace, slash and name; otherwise of prefix and name.
	Namespaced bool
	// Attributes reads labels and fields from stored bytes. It is called once for each version of an object, from
	// several goroutines while the kind is filled. Its result may point into value. Nil means that objects have no
	// attributes. If it fails, the object cannot be read: lists and watches omit it, and Unreadable says why.
	Attributes func(key string, value []byte) (Attributes, error)
	// WindowEvents and WindowBytes bound the history; zero means the bounds in the cache's Options.
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
	ended   chan struct{} // closed when there will be no more events

	cursors         atomic.Int64
	unfiltered      atomic.Int64 // the number of cursors that see every event
	events          atomic.Int64
	unreadableCount atomic.Int64 // the number of values or attributes that cannot be read

	// mu guards the fields below. It is held briefly, for a change or for a read of the tree. While it is held, only
	// the form budget's lock may be taken.
	mu    sync.Mutex
	state tree
	// unreadable are the keys whose value cannot be read. They are not in state.
	unreadable unreadable
	frozen     *tree // a frozen copy of state, if a snapshot was taken since the last change
	rev        store.Revision
	history    *history // nil until the kind is filled
	end        *link    // why there will be no more events, or nil
	past       past
	pending    []change // changes that arrived before the kind was filled
	// packedAt is the number of events when values were last packed. unpacked says that some values were left unpacked
	// then.
	packedAt int64
	unpacked bool

	fresh []change // the changes of the current batch; only the writer uses it
}

// Name returns the kind's name.
func (k *Kind) Name() string { return k.options.Name }

// Options returns the options of the kind, with the bounds of its window filled in.
func (k *Kind) Options() KindOptions { return k.options }

// Ready reports whether the kind has been filled.
func (k *Kind) Ready() bool {
	select {
	case <-k.ready:
		return true
	default:
		return false
	}
}

// WaitReady waits until the kind is filled, and fails if it never will be.
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
	reached := k.cache.Revision() // read before the state, which then is at least as new
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
	if k.end != nil { // the kind was removed, and the cache's revision goes on without it
		reached = 0
	}
	return Snapshot{state: k.frozen, rev: max(reached, k.rev)}
}

// Watch returns a cursor for the topic's events after from. If from is beyond the cache's revision, events up to from
// are skipped.
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

// WatchFromNow returns the newest state and a cursor for the topic's events after it.
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

// Watched returns the number of watches that see every event of the kind.
func (k *Kind) Watched() int { return int(k.unfiltered.Load()) }

// hasTopicList reports whether a topic has a list of its own.
func (k *Kind) hasTopicList(t Topic) bool {
	switch t.class {
	case topicNamespace, topicKey:
		return true
	case topicField:
		return slices.Contains(k.options.Indexed, int(t.field))
	default:
		return false
	}
}
