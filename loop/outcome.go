package loop

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/queue"
)

// ErrBehind means that a cache does not show yet what the loop has written. A Sync that returns it is called again
// soon, and nothing is logged.
var ErrBehind = errors.New("the cache is behind our own writes")

// behindDelay is the delay after ErrBehind. Usually the awaited change wakes the loop earlier.
const behindDelay = 100 * time.Millisecond

// Terminal marks an error that retrying cannot fix: it is logged, and the key waits for its next change.
func Terminal(err error) error { return queue.Terminal(err) }

// sync is the queue's work function: what it returns is retried.
func (l *Loop) sync(ctx context.Context, key Key) error {
	err := l.attempt(ctx, key)
	if err == nil {
		l.warned.forget(key)
	}
	return err
}

func (l *Loop) attempt(ctx context.Context, key Key) error {
	err := l.writes.settled(ctx, key)
	var result Result
	if err == nil {
		result, err = l.Sync(context.WithValue(ctx, syncingKey{}, syncing{&l.writes, key}), key)
	}
	switch {
	case err == nil:
		if result.After > 0 {
			l.AddAfter(key, result.After)
		}
		return nil
	case ctx.Err() != nil:
		l.Add(key) // the key stays in the queue; the error only says that the loop stops
		return nil
	case errors.Is(err, ErrBehind):
		l.keys().RetryAfter(key, behindDelay)
		return nil
	case inTerminatingNamespace(err):
		return Terminal(err)
	default:
		return err
	}
}

// A key's failures in a row are an error when there were persistent of them and they go on for lasting. The number
// alone says little: a key that other changes wake fails often in a short time.
const (
	persistent = 10
	lasting    = 5 * time.Second
)

// settling is how many failures of a key in a row may have their reason in a cache that is behind.
const settling = 3

// report logs an error. Level Error means that an administrator should look: retrying does not help, or has not helped
// for a while. Before that there is one warning for a key that fails, and what belongs to normal operation is logged at
// level Debug.
func (l *Loop) report(ctx context.Context, key Key, err error) {
	level := slog.LevelDebug
	times, lasted := l.keys().Failing(key)
	switch {
	case isNormal(err):
	case queue.IsTerminal(err):
		l.warned.forget(key) // it is not retried
		level = slog.LevelError
	case times >= persistent && lasted >= lasting:
		level = slog.LevelError
	case apierrors.IsInternalError(err): // the server logs each of these, with the reason
	case apierrors.IsNotFound(err) && times < settling: // the cache did not show yet that something is gone
	case l.warned.first(key):
		level = slog.LevelWarn
	}
	l.log().Log(ctx, level, "sync failed", "loop", l.Name, "key", key.String(),
		"retried", !queue.IsTerminal(err), "err", err)
}

// isNormal reports whether an error is part of normal operation: a conflict with another writer, a terminating
// namespace, or an API server that is unreachable or busy, which is logged once elsewhere.
func isNormal(err error) bool {
	return apierrors.IsConflict(err) || inTerminatingNamespace(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err)
}

// inTerminatingNamespace reports whether a request was refused because the namespace is being deleted. It is not
// retried.
func inTerminatingNamespace(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// warnings are the keys that fail and of which a warning has been logged.
type warnings struct {
	mu   sync.Mutex // guards keys
	keys map[Key]struct{}
}

// first reports whether no warning of the key was logged since it last succeeded.
func (w *warnings) first(key Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, logged := w.keys[key]; logged {
		return false
	}
	if w.keys == nil {
		w.keys = map[Key]struct{}{}
	}
	w.keys[key] = struct{}{}
	return true
}

func (w *warnings) forget(key Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.keys, key)
}
