package loop

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/rest"
)

// LimitRequests makes each loop send at most perSecond requests a second after a burst, when its contexts are those of
// [WithName]. Requests that belong to no loop, such as those of informers, have one limit together. waited, which may
// be nil, is told how long each request had to wait.
func LimitRequests(config *rest.Config, perSecond float32, burst int, waited func(method string, took time.Duration)) {
	if waited == nil {
		waited = func(string, time.Duration) {}
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &limits{next: next, rate: rate.Limit(perSecond), burst: max(burst, 1), waited: waited, byLoop: map[string]*rate.Limiter{}}
	})
}

type limits struct {
	next   http.RoundTripper
	rate   rate.Limit
	burst  int
	waited func(string, time.Duration)

	mu     sync.Mutex // guards byLoop
	byLoop map[string]*rate.Limiter
}

// RoundTrip implements http.RoundTripper.
func (l *limits) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	if err := l.of(nameOf(r.Context())).Wait(r.Context()); err != nil {
		closeBody(r)
		return nil, fmt.Errorf("client rate limiter Wait returned an error: %w", err)
	}
	l.waited(r.Method, time.Since(began))
	return l.next.RoundTrip(r)
}

func (l *limits) of(loop string) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	limiter, ok := l.byLoop[loop]
	if !ok {
		limiter = rate.NewLimiter(l.rate, l.burst)
		l.byLoop[loop] = limiter
	}
	return limiter
}
