package loop

import (
	"context"
	"errors"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/queue"
)

// ErrBehind says that a cache does not show yet what the loop itself has
// written. A Sync that returns it is called again soon; nothing is logged.
var ErrBehind = errors.New("the cache is behind our own writes")

// behindDelay is the pause after ErrBehind. The change that is waited for
// usually wakes the loop earlier.
const behindDelay = 100 * time.Millisecond

// Terminal marks an error that calling Sync again cannot cure: it is logged,
// and the key waits for the next change.
func Terminal(err error) error { return queue.Terminal(err) }

// sync is the work of the queue: what it returns is tried again.
func (l *Loop) sync(ctx context.Context, key Key) error {
	err := l.writes.Settled(ctx, key)
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
		l.Add(key) // undone work stays in the queue; the error is only that we stop
		return nil
	case errors.Is(err, ErrBehind):
		l.AddAfter(key, behindDelay)
		return nil
	case inTerminatingNamespace(err):
		return Terminal(err)
	default:
		return err
	}
}

// persistent is how many failures of a key in a row are worth a look: by then
// it has been tried for some seconds.
const persistent = 10

// report logs an error. The level Error means that somebody has to look: trying
// again does not help, or has not helped for a while. What is tried again for
// the first times is a warning, and what belongs to normal operation is logged for debugging.
func (l *Loop) report(ctx context.Context, key Key, err error) {
	level := slog.LevelWarn
	switch {
	case isNormal(err):
		level = slog.LevelDebug
	case queue.IsTerminal(err), l.keys().NumRequeues(key) >= persistent:
		level = slog.LevelError
	}
	l.log().Log(ctx, level, "sync failed", "loop", l.Name, "key", key.String(),
		"retried", !queue.IsTerminal(err), "err", err)
}

// isNormal reports whether an error is part of normal operation: another writer was faster, the namespace is about to
// go, or the API server is away or busy, which is said once elsewhere.
func isNormal(err error) bool {
	return apierrors.IsConflict(err) || inTerminatingNamespace(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err)
}

// inTerminatingNamespace: whatever is refused there need not be tried again,
// since all of it is about to go.
func inTerminatingNamespace(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}
