package etcd

import (
	"context"
	"fmt"
	"time"
)

// leases lets entries share leases, because there are thousands of entries and a lease is expensive. Entries with the
// same time to live that are written within one window share a lease. The lease lasts longer by the width of the
// window, so no entry expires too early.
type leases struct {
	// lock holds a token; the goroutine that took it may use current. It is a channel so that a caller can stop waiting
	// when its context ends.
	lock    chan struct{}
	current map[time.Duration]*lease
}

type lease struct {
	id    int64
	ttl   time.Duration
	until time.Time // until when new entries may join
	room  int       // how many more entries may join
}

// A window is a twentieth of the time to live, but at most a minute. The number of entries of a lease is bounded,
// because etcd deletes all of them in one transaction.
const (
	maxWindow  = time.Minute
	leaseRoom  = 1000
	windowPart = 20
)

func newLeases() leases {
	l := leases{lock: make(chan struct{}, 1), current: make(map[time.Duration]*lease)}
	l.lock <- struct{}{}
	return l
}

// lease returns a lease for one entry.
func (s *Store) lease(ctx context.Context, ttl time.Duration) (*lease, error) {
	select {
	case <-s.leases.lock:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.closed:
		return nil, s.checkUsable(ctx)
	}
	defer func() { s.leases.lock <- struct{}{} }()
	l, now := s.leases.current[ttl], time.Now()
	if l == nil || l.room == 0 || now.After(l.until) {
		if err := s.checkUsable(ctx); err != nil {
			return nil, err
		}
		window := min(ttl/windowPart, maxWindow)
		id, err := s.cluster.grant(ctx, int64((ttl+window+time.Second-1)/time.Second))
		if err != nil {
			return nil, fmt.Errorf("lease: %w", s.explain(ctx, err))
		}
		s.leases.drop(now)
		l = &lease{id: id, ttl: ttl, until: now.Add(window), room: leaseRoom}
		s.leases.current[ttl] = l
	}
	l.room--
	return l, nil
}

// drop forgets the leases that accept no more entries, so that unusual times to live do not accumulate.
func (l *leases) drop(now time.Time) {
	for ttl, old := range l.current {
		if now.After(old.until) {
			delete(l.current, ttl)
		}
	}
}

// forget drops a lease that etcd no longer has.
func (l *leases) forget(gone *lease) {
	<-l.lock
	defer func() { l.lock <- struct{}{} }()
	if l.current[gone.ttl] == gone {
		delete(l.current, gone.ttl)
	}
}
