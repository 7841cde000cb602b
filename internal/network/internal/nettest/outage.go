package nettest

import (
	"context"
	"errors"
	"net/http"
	"sync"
)

// Outage is the way to an API server. It can be interrupted, and counts writes.
type Outage struct {
	next http.RoundTripper

	mu     sync.Mutex // guards the rest
	away   bool
	writes int
	cut    []context.CancelFunc // end the requests that were sent
}

// Wrap takes the way to the API server, as for rest.Config.Wrap.
func (o *Outage) Wrap(next http.RoundTripper) http.RoundTripper {
	o.next = next
	return o
}

var errAway = errors.New("the API server cannot be reached")

// RoundTrip implements http.RoundTripper.
func (o *Outage) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cut := context.WithCancel(r.Context())
	o.mu.Lock()
	away := o.away
	o.cut = append(o.cut, cut)
	if !away && r.Method != http.MethodGet {
		o.writes++
	}
	o.mu.Unlock()
	if away {
		return nil, errAway
	}
	return o.next.RoundTrip(r.WithContext(ctx))
}

// Begin interrupts the way: requests fail, and watches end.
func (o *Outage) Begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.away = true
	for _, cut := range o.cut {
		cut()
	}
	o.cut = nil
}

// End ends the interruption.
func (o *Outage) End() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.away = false
}

// Writes is how many requests other than reads have reached the server.
func (o *Outage) Writes() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.writes
}
