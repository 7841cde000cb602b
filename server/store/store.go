// Package store keeps bytes under keys, each change with a revision of its own.
//
// A store is one sequence of revisions. What every implementation guarantees, and what the conformance suite in
// storetest checks by these names:
//
//   - Durable: a write whose call returned without an error is there after a crash (the memory store's life is the
//     process's).
//   - Atomic: a compare-and-swap takes effect wholly or not at all, and of two that expect the same revision one wins.
//   - Monotonic: revisions only grow; every write gets one that is greater than all before it.
//   - Linearizable: Revision, and a Get or List that does not ask for a stale answer, see every write that was
//     acknowledged before they were called.
//   - Snapshot: a List at a revision, and all its pages, show the state as it was right after that revision.
//   - Ordered, Unique, Reliable: a watch delivers every change after its start, once, in the order of revisions.
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

// ParseRevision reads what Revision.String writes. The empty string is revision zero.
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

// What can go wrong. Implementations wrap these; callers test with errors.Is.
var (
	ErrExists      = errors.New("key exists")
	ErrNotFound    = errors.New("key not found")
	ErrConflict    = errors.New("revision does not match")
	ErrCompacted   = errors.New("revision has been compacted")
	ErrFuture      = errors.New("revision is in the future")
	ErrNoSpace     = errors.New("store is out of space")
	ErrTooLarge    = errors.New("value is too large")
	ErrUnavailable = errors.New("store is unavailable")
	ErrClosed      = errors.New("store is closed")
	ErrUnreadable  = errors.New("value cannot be read")
)

// ConflictError is an ErrConflict that carries what was found instead, so that the caller may try again at once.
type ConflictError struct {
	Key     string
	Want    Revision
	Current Entry
}

// Error implements error.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s: revision %d expected, %d found", e.Key, e.Want, e.Current.Revision)
}

// Is implements what errors.Is asks for.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// UnreadableError is an ErrUnreadable: the store has a value, and its Transformer cannot transform it back.
type UnreadableError struct {
	Key      string
	Revision Revision
	Err      error
}

// Error implements error.
func (e *UnreadableError) Error() string {
	return fmt.Sprintf("data from the storage is not transformable revision=%d: %v", e.Revision, e.Err)
}

// Is implements what errors.Is asks for.
func (e *UnreadableError) Is(target error) bool { return target == ErrUnreadable }

// Unwrap returns the Transformer's error.
func (e *UnreadableError) Unwrap() error { return e.Err }

// Entry is one key's value as of the revision that last changed it. The value must not be modified.
type Entry struct {
	Key      string
	Value    []byte
	Revision Revision
	// Unreadable says why there is no Value although the key exists: Transform sets it.
	Unreadable *UnreadableError
	// Stale says that the store would keep the value in another form now, because of its Transformer: writing it again
	// as it is would not be for nothing.
	Stale bool
}

// EventType says what happened to a key.
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
	// Unreadable says why a Put has no Value: Transform sets it.
	Unreadable *UnreadableError
}

// Batch is a run of changes in order. Every change up to Revision has been delivered once the batch has been; a batch
// without events is a progress report.
type Batch struct {
	Events   []Event
	Revision Revision
}

// GetOptions says how fresh a Get must be.
type GetOptions struct {
	// Stale allows an answer that misses the newest writes, if that is cheaper.
	Stale bool
}

// ListOptions says which part of a prefix to list, and as of when.
type ListOptions struct {
	// From is the first key of the page; empty means the start of the prefix.
	From string
	// Limit is the most entries of a page; zero means all.
	Limit int
	// Revision lists the state right after it; zero means now. ErrCompacted and ErrFuture tell when it can't be had.
	Revision Revision
	// Stale allows an answer that misses the newest writes, if that is cheaper. It has no meaning with a Revision.
	Stale bool
	// Uncounted says that Page.Remaining is not looked at, and may be anything. To count what follows a page, a store goes through all of it.
	Uncounted bool
}

// Page is a part of the entries below a prefix, by ascending key.
type Page struct {
	Entries []Entry
	// Revision is the store's revision that the page shows.
	Revision Revision
	// More says that entries follow; the next page starts right after the last key.
	More bool
	// Remaining counts the entries that follow, if More and unless ListOptions.Uncounted.
	Remaining int64
}

// Store is the contract. All methods may be called from any goroutine.
type Store interface {
	// Create writes a key that does not exist (ErrExists). A ttl above zero makes the entry expire. The caller keeps
	// its slice, here and in Update.
	Create(ctx context.Context, key string, value []byte, ttl time.Duration) (Revision, error)
	// Get reads one key (ErrNotFound).
	Get(ctx context.Context, key string, o GetOptions) (Entry, error)
	// List reads the keys that begin with prefix.
	List(ctx context.Context, prefix string, o ListOptions) (Page, error)
	// Update replaces a key's value if its revision is expect: otherwise *ConflictError, or ErrNotFound. A ttl above
	// zero starts a new time to live, zero makes the entry stay.
	Update(ctx context.Context, key string, value []byte, expect Revision, ttl time.Duration) (Revision, error)
	// Delete removes a key if its revision is expect: otherwise *ConflictError, or ErrNotFound.
	Delete(ctx context.Context, key string, expect Revision) (Revision, error)
	// Watch hands every change below prefix after the given revision to sink until ctx ends, sink returns an error,
	// or the store is lost; it returns the reason, and sink's error as it is. After zero means from now. The first
	// batch comes as soon as the watch is in place, be it empty; batches come one at a time. ErrCompacted and
	// ErrFuture tell when it can't begin, or go on, where it should.
	Watch(ctx context.Context, prefix string, after Revision, sink func(Batch) error) error
	// Revision tells the newest revision, linearizably.
	Revision(ctx context.Context) (Revision, error)
	// Compact forgets the history before rev: lists at rev and watches after rev can still be had. ErrCompacted tells
	// that it has been done before, or that more has been forgotten already.
	Compact(ctx context.Context, rev Revision) error
	// Size tells how many bytes the store takes on its medium.
	Size(ctx context.Context) (int64, error)
	// Writable tells why writes that need room are refused just now, or nil: ErrNoSpace, above all. It asks nobody.
	Writable() error
	// Close ends everything the store runs. Calls that are under way, and later ones, fail with ErrClosed.
	Close() error
}
