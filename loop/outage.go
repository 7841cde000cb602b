package loop

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// outage logs once that the API server cannot be reached, and once that it can be again. Errors in between are logged
// at level Debug: see causedByOutage.
type outage struct {
	log *slog.Logger
	now func() time.Time

	mu    sync.Mutex // guards since
	since time.Time  // when the outage began; zero if there is none
}

// wrap observes the requests of a round tripper.
func (o *outage) wrap(next http.RoundTripper) http.RoundTripper { return &watched{next, o} }

func (o *outage) begins(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() {
		o.since = o.now()
		o.log.Warn("the API server cannot be reached; retrying", "err", err)
	}
}

func (o *outage) ends() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.since.IsZero() {
		o.log.Warn("the API server can be reached again", "after", o.now().Sub(o.since).Round(time.Millisecond))
		o.since = time.Time{}
	}
}

// watched is a RoundTripper that reports to an outage.
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
		return nil, err // the caller has canceled the request
	}
	w.outage.begins(err)
	return nil, &unreachable{err}
}

// WrappedRoundTripper gives client-go access to the inner transport, which it configures.
func (w *watched) WrappedRoundTripper() http.RoundTripper { return w.next }

// unreachable is the error of a request without an answer.
type unreachable struct{ error }

// Unwrap returns the cause.
func (u *unreachable) Unwrap() error { return u.error }

// Timeout reports whether the cause is a timeout.
func (u *unreachable) Timeout() bool {
	var slow interface{ Timeout() bool }
	return errors.As(u.error, &slow) && slow.Timeout()
}

// causedByOutage reports whether a record tells of an unreachable API server.
func causedByOutage(r slog.Record) (found bool) {
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
