package watchcache

import (
	"errors"
	"fmt"
)

// The errors of a cache. Callers test for them with errors.Is.
var (
	// ErrNotReady says that the kind has not yet been filled.
	ErrNotReady = errors.New("watch cache is not filled yet")
	// ErrExpired says that a revision is older than the window.
	ErrExpired = errors.New("revision is older than the watch cache's window")
	// ErrFuture says that the cache has not reached a revision yet.
	ErrFuture = errors.New("revision is newer than the watch cache")
	// ErrRefilled ends cursors when the log was lost and the state was read again: the events in between are unknown.
	ErrRefilled = errors.New("watch cache was refilled")
	// ErrReplaced is an ErrRefilled: the store is at a lower revision than before, as after it was restored from a
	// backup. Revisions that were read before mean nothing any more.
	ErrReplaced = fmt.Errorf("the store went back to an older state: %w", ErrRefilled)
	// ErrGone says that the kind was removed.
	ErrGone = errors.New("kind was removed from the watch cache")
	// ErrStopped says that the cache's Run has ended.
	ErrStopped = errors.New("watch cache has stopped")
)
