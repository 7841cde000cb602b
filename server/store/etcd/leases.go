package etcd

import (
	"context"
	"fmt"
	"time"
)

// leases lets entries share leases, since they come by the thousand and a lease is dear. Entries with the same time to
// live that are written within a window share one; it lasts as much longer as the window is wide, so that none of them
// goes too early.
type leases struct {
	// turn holds a token: the goroutine that has taken it may use current. It is a channel so that a caller's context ends its wait.
	turn    chan struct{}
	current map[time.Duration]*lease
}

type lease struct {
	id    int64
	ttl   time.Duration
	until time.Time // new entries are accepted
	room  int       // for so many entries
}

// A window is a twentieth of the time to live, and a minute at most. A lease takes so many entries and no more, since
// all of them are deleted in one transaction.
const (
	maxWindow  = time.Minute
	leaseRoom  = 1000
	windowPart = 20
)

func newLeases() leases {
	l := leases{turn: make(chan struct{}, 1), current: make(map[time.Duration]*lease)}
	l.turn <- struct{}{}
	return l
}

// lease gives a lease for one entry.
func (s *Store) lease(ctx context.Context, ttl time.Duration) (*lease, error) {
	select {
	case <-s.leases.turn:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.closed:
		return nil, s.refuse(ctx)
	}
	defer func() { s.leases.turn <- struct{}{} }()
	l, now := s.leases.current[ttl], time.Now()
	if l == nil || l.room == 0 || now.After(l.until) {
		if err := s.refuse(ctx); err != nil {
			return nil, err
		}
		window := min(ttl/windowPart, maxWindow)
		id, err := s.engine.grant(ctx, int64((ttl+window+time.Second-1)/time.Second))
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

// drop forgets the leases that take no more entries, so that odd times to live do not pile up.
func (l *leases) drop(now time.Time) {
	for ttl, old := range l.current {
		if now.After(old.until) {
			delete(l.current, ttl)
		}
	}
}

// forget drops a lease that etcd no longer has.
func (l *leases) forget(gone *lease) {
	<-l.turn
	defer func() { l.turn <- struct{}{} }()
	if l.current[gone.ttl] == gone {
		delete(l.current, gone.ttl)
	}
}
