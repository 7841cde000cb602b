// Package assembly starts the parts of a cluster in order, and ends them in reverse.
//
// The packages below it are the parts. Each may use those before it, and none of those after it:
//
//	address     the port, and the addresses at which it is reached
//	storage     the store, the watch cache, the kinds and the registry
//	access      keys and certificates, who somebody is, and what they may do
//	plugins     what takes part in each write: admission and the addresses of services
//	objects     the objects that every cluster begins with
//	extensions  custom resources, and API groups that other servers answer
//	web         the API: requests from this process and from the network
//	loops       the controllers and the scheduler
//	tenants     the other clusters that this one runs
//	nodes       hollow nodes, and this machine as a node
//
// Guarantees: a part is started after all parts before it, and ended before them. If one cannot start, those that were
// started are ended, and so is what it has started itself. When Close returns, nothing is running.
package assembly

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
)

// Part is a part of a cluster.
type Part interface {
	// Start starts the part, and returns when the parts after it can use it. All that must be ended it puts on the
	// list, as soon as it exists: the list ends it even if Start then fails.
	Start(ctx context.Context, l *List) error
}

// Func is a function that is a Part.
type Func func(ctx context.Context, l *List) error

// Start calls f.
func (f Func) Start(ctx context.Context, l *List) error { return f(ctx, l) }

// List owns everything that runs in a cluster, in the order in which it was started.
type List struct {
	log     *slog.Logger
	entries []*entry
	once    sync.Once
	failed  chan error
}

// entry is something that must be ended: goroutines that end with a context, or something that is closed.
type entry struct {
	name    string
	cancel  context.CancelCauseFunc
	stop    func()
	running sync.WaitGroup
	close   func() error
}

// ErrClosing is the cause with which contexts end when a cluster is closed.
var ErrClosing = errors.New("the cluster is closing")

// New makes a list on which nothing is.
func New(log *slog.Logger) *List { return &List{log: log, failed: make(chan error, 1)} }

// Start starts parts, one after the other. If one fails, everything on the list is ended.
func (l *List) Start(ctx context.Context, parts ...Part) error {
	for _, p := range parts {
		if err := p.Start(ctx, l); err != nil {
			return errors.Join(err, l.Close())
		}
	}
	return nil
}

// Run runs goroutines until the list is closed. If one of them ends before, that is reported to Failed.
func (l *List) Run(name string, goroutines ...func(context.Context) error) {
	l.Until(name, func() {}, goroutines...)
}

// Until is Run for goroutines that do not end with their context alone: stop ends them, after it.
func (l *List) Until(name string, stop func(), goroutines ...func(context.Context) error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	e := &entry{name: name, cancel: cancel, stop: stop, close: func() error { return nil }}
	l.entries = append(l.entries, e)
	for _, run := range goroutines {
		e.running.Go(func() {
			err := run(ctx)
			if ctx.Err() != nil {
				return
			}
			select {
			case l.failed <- fmt.Errorf("%s ended: %w", name, err):
			default:
			}
		})
	}
}

// Opened puts on the list what must be closed.
func (l *List) Opened(name string, close func() error) {
	l.entries = append(l.entries, &entry{name: name, cancel: func(error) {}, stop: func() {}, close: close})
}

// Failed receives an error if something has ended by itself.
func (l *List) Failed() <-chan error { return l.failed }

// Close ends everything, the last first, and waits for each. It may be called more than once: only the first call
// returns errors.
func (l *List) Close() error {
	var err error
	l.once.Do(func() {
		for i := len(l.entries) - 1; i >= 0; i-- {
			l.log.Debug("stopping", "part", l.entries[i].name)
			err = errors.Join(err, l.entries[i].end())
		}
	})
	return err
}

func (e *entry) end() error {
	e.cancel(ErrClosing)
	e.stop()
	e.running.Wait()
	return e.close()
}
