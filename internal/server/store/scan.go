package store

import (
	"context"
	"errors"
)

// Scanner is implemented by stores that can lend values to a reader instead of copying them. Use it through Scan.
type Scanner interface {
	// Scan passes the entries below prefix to visit: their state right after rev; zero means the current state. It
	// returns the revision whose state it is. Each call of visit gets a run of neighbours by ascending key. Several
	// goroutines call visit at the same time, and the runs come in no order. When Scan returns, no call of visit is
	// running.
	//
	// A value is lent: it must not be used after visit has returned. A store that cannot lend returns
	// errors.ErrUnsupported before it calls visit. After any other error some entries may have been visited.
	Scan(ctx context.Context, prefix string, rev Revision, visit func([]Entry)) (Revision, error)
}

// Scan is Scanner.Scan for any store. If the store cannot lend, the error is errors.ErrUnsupported.
func Scan(ctx context.Context, s Store, prefix string, rev Revision, visit func([]Entry)) (Revision, error) {
	scanner, ok := s.(Scanner)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	return scanner.Scan(ctx, prefix, rev, visit)
}
