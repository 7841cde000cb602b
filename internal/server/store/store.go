// Package store keeps bytes under keys, each change with a revision of its own.
//
// A store is one sequence of revisions. What every implementation guarantees, and what the conformance suite in
// storetest checks by these names:
//
//   - Durable: a write whose call returned without an error is there after a crash (the memory store's life is the
//     process's).
//   - Atomic: a compare-and-swap takes effect wholly or not at all, and of two that expect the same revision one wins.
//     A create with conditions takes effect only if they hold at that moment.
//   - Monotonic: revisions only grow; every write gets one that is greater than all before it.
//   - Linearizable: Revision, and a Get or List that does not ask for a stale answer, see every write that was
//     acknowledged before they were called.
//   - Snapshot: a List at a revision, and all its pages, show the state as it was right after that revision.
//   - Ordered, Unique, Reliable: a watch delivers every change after its start, once, in the order of revisions.
//   - Linearizable: whoever has seen an event reads no older state, unless the read asks for a stale answer.
//   - Progress: a watch reports, within a bounded time of being idle, how far it has come.
//   - Expiring: an entry written with a time to live is deleted some time after that, as an ordinary change.
//
// A caller may not assume that revisions are dense, that a failed call had no effect (a lost connection may hide a
// success: compare again), or that a batch of a watch holds the changes of one revision only. All changes of one
// revision are in one batch.
package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Revision numbers the changes of a store. Zero means "none" where one may be left out.
type Revision int64

// ParseRevision parses the text that Revision.String returns. The empty string is revision zero.
func ParseRevision(s string) (Revision, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("revision %q is not a whole number", s)
	}
	return Revision(n), nil
}

// String implements fmt.Stringer.
func (r Revision) String() string { return strconv.FormatInt(int64(r), 10) }

// The errors of a store. Implementations wrap them; callers test for them with errors.Is.
var (
	ErrExists      = errors.New("key exists")
	ErrNotFound    = errors.New("key not found")
	ErrConflict    = errors.New("revision does not match")
	ErrCondition   = errors.New("condition does not hold")
	ErrCompacted   = errors.New("revision has been compacted")
	ErrFuture      = errors.New("revision is in the future")
	ErrNoSpace     = errors.New("store is out of space")
	ErrTooLarge    = errors.New("value is too large")
	ErrUnavailable = errors.New("store is unavailable")
	ErrClosed      = errors.New("store is closed")
	ErrUnreadable  = errors.New("value cannot be read")
)

// ConflictError is an ErrConflict that carries the entry found instead, so that the caller can retry at once.
type ConflictError struct {
	Key     string
	Want    Revision
	Current Entry
}

// Error implements error.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s: revision %d expected, %d found", e.Key, e.Want, e.Current.Revision)
}

// Is makes errors.Is(err, ErrConflict) true.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// UnreadableError is an ErrUnreadable: the store has a value, and its Transformer cannot transform it back, or it is of
// no known form.
type UnreadableError struct {
	Key      string
	Revision Revision
	// Undecodable says that the value could be transformed, and not decoded.
	Undecodable bool
	Err         error
}

// Error implements error.
func (e *UnreadableError) Error() string {
	what := "data from the storage is not transformable"
	if e.Undecodable {
		what = "object not decodable"
	}
	return fmt.Sprintf("%s revision=%d: %v", what, e.Revision, e.Err)
}

// Is makes errors.Is(err, ErrUnreadable) true.
func (e *UnreadableError) Is(target error) bool { return target == ErrUnreadable }

// Unwrap returns the Transformer's error.
func (e *UnreadableError) Unwrap() error { return e.Err }

// Entry is one key's value as of the revision that last changed it. The value must not be modified.
type Entry struct {
	Key      string
	Value    []byte
	Revision Revision
	// Unreadable says why Value is missing although the key exists. Transform sets it.
	Unreadable *UnreadableError
	// Stale says that the Transformer would encode the value differently now, for example with a newer key. Writing the
	// same value again brings it up to date.
	Stale bool
}

// Condition is what a Create may depend on: that the last change of another key is that of a revision, so that the key
// exists and has not been written or deleted since.
type Condition struct {
	Key      string
	Revision Revision
}

// EventType says whether a key was written or deleted.
type EventType uint8

const (
	Put EventType = iota
	Delete
)

// Event is one change of one key. A Delete carries no value.
type Event struct {
	Type     EventType
	Key      string
	Value    []byte
	Revision Revision
	// Unreadable says why a Put has no Value. Transform sets it.
	Unreadable *UnreadableError
}

// Batch is a run of changes in order. With it, every change up to Revision has been delivered. A batch without events
// reports progress.
type Batch struct {
	Events   []Event
	Revision Revision
}

// GetOptions says how fresh a Get must be.
type GetOptions struct {
	// Stale allows an answer that lacks the newest writes, if that is cheaper.
	Stale bool
}

// ListOptions says which part of a prefix to list, and as of when.
type ListOptions struct {
	// From is the first key of the page; empty means the start of the prefix.
	From string
	// Limit is the maximum number of entries in a page; zero means all.
	Limit int
	// Revision asks for the state right after that revision; zero means the current state. If the store does not have
	// it, the error is ErrCompacted or ErrFuture.
	Revision Revision
	// Stale allows an answer that lacks the newest writes, if that is cheaper. It is ignored if Revision is set.
	Stale bool
	// Uncounted says that the caller ignores Page.Remaining, which may then hold any number. Counting the entries after
	// a page costs a walk through all of them.
	Uncounted bool
}

// Page is a part of the entries below a prefix, by ascending key.
type Page struct {
	Entries []Entry
	// Revision is the revision whose state the page shows.
	Revision Revision
	// More says that entries follow; the next page starts right after the last key of this one.
	More bool
	// Remaining is the number of entries that follow. It is valid if More is set and ListOptions.Uncounted is not.
	Remaining int64
}

// Store is implemented by each kind of store. All methods may be called from any goroutine.
type Store interface {
	// Create writes a key that does not exist yet; otherwise it fails with ErrExists, or else with ErrCondition if a
	// condition does not hold. If ttl is above zero, the entry expires. Create and Update do not keep value: the caller
	// may use the slice again.
	Create(ctx context.Context, key string, value []byte, ttl time.Duration, conditions ...Condition) (Revision, error)
	// Get reads one key, or fails with ErrNotFound.
	Get(ctx context.Context, key string, o GetOptions) (Entry, error)
	// List reads the keys that begin with prefix.
	List(ctx context.Context, prefix string, o ListOptions) (Page, error)
	// Update replaces a key's value if its revision is expect; otherwise it fails with *ConflictError or ErrNotFound. A
	// ttl above zero sets a new time to live; zero means that the entry no longer expires.
	Update(ctx context.Context, key string, value []byte, expect Revision, ttl time.Duration) (Revision, error)
	// Delete removes a key if its revision is expect; otherwise it fails with *ConflictError or ErrNotFound.
	Delete(ctx context.Context, key string, expect Revision) (Revision, error)
	// Watch passes every change below prefix after the given revision to sink, one batch at a time, until ctx ends,
	// sink returns an error, or the store is lost. It returns the reason; an error of sink is returned unwrapped. If
	// after is zero, the watch starts now. The first batch comes as soon as the watch is established, even if it is
	// empty. If the watch cannot start or go on at its revision, the error is ErrCompacted or ErrFuture.
	Watch(ctx context.Context, prefix string, after Revision, sink func(Batch) error) error
	// Revision returns the newest revision. The read is linearizable.
	Revision(ctx context.Context) (Revision, error)
	// Compact forgets the history before rev. Lists at rev and watches after rev still work. It fails with ErrCompacted
	// if the store was already compacted to rev or later.
	Compact(ctx context.Context, rev Revision) error
	// Size returns the number of bytes that the store occupies on disk or in memory.
	Size(ctx context.Context) (int64, error)
	// Writable returns the reason why writes that need space are refused at the moment, usually ErrNoSpace, or nil. It
	// answers from memory.
	Writable() error
	// Close stops everything that the store runs. Calls in progress and later calls fail with ErrClosed.
	Close() error
}
