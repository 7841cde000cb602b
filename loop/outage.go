package loop

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// outage says once that the API server cannot be reached, and once that it
// can be again. What fails in between is logged for those who debug only: see
// calm.
type outage struct {
	log *slog.Logger
	now func() time.Time

	mu    sync.Mutex // guards since
	since time.Time  // when it began; zero while there is none
}

// wrap watches over requests.
func (o *outage) wrap(next http.RoundTripper) http.RoundTripper { return &watched{next, o} }

func (o *outage) begins(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() {
		o.since = o.now()
		o.log.Warn("the API server cannot be reached; tries go on", "err", err)
	}
}

func (o *outage) ends() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.since.IsZero() {
		o.log.Warn("the API server is reached again", "after", o.now().Sub(o.since).Round(time.Millisecond))
		o.since = time.Time{}
	}
}

// watched is a RoundTripper over which an outage watches.
type watched struct {
	next   http.RoundTripper
	outage *outage
}

// RoundTrip implements http.RoundTripper.
func (w *watched) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := w.next.RoundTrip(r)
	switch {
	case err == nil:
		w.outage.ends()
		return answer, nil
	case errors.Is(r.Context().Err(), context.Canceled):
		return nil, err // nobody wants the answer any more
	}
	w.outage.begins(err)
	return nil, &unreachable{err}
}

// WrappedRoundTripper lets client-go find what it configures.
func (w *watched) WrappedRoundTripper() http.RoundTripper { return w.next }

// unreachable is an error without an answer.
type unreachable struct{ error }

// Unwrap is what went wrong.
func (u *unreachable) Unwrap() error { return u.error }

// Timeout reports whether it took too long.
func (u *unreachable) Timeout() bool {
	var slow interface{ Timeout() bool }
	return errors.As(u.error, &slow) && slow.Timeout()
}

// calm is a handler that lowers to the level Debug what is logged because the
// API server could not be reached.
type calm struct{ slog.Handler }

// Handle implements slog.Handler.
func (c calm) Handle(ctx context.Context, r slog.Record) error {
	if r.Level > slog.LevelDebug && forWantOfAnswer(r) {
		if r.Level = slog.LevelDebug; !c.Enabled(ctx, r.Level) {
			return nil
		}
	}
	return c.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (c calm) WithAttrs(attrs []slog.Attr) slog.Handler { return calm{c.Handler.WithAttrs(attrs)} }

// WithGroup implements slog.Handler.
func (c calm) WithGroup(name string) slog.Handler { return calm{c.Handler.WithGroup(name)} }

func forWantOfAnswer(r slog.Record) (found bool) {
	r.Attrs(func(a slog.Attr) bool {
		if a.Value.Kind() != slog.KindAny {
			return true
		}
		err, ok := a.Value.Any().(error)
		var u *unreachable
		found = ok && errors.As(err, &u)
		return !found
	})
	return found
}
