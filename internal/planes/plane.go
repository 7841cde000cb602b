package planes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Cluster is a plane that is awake.
type Cluster interface {
	// ServeHTTP serves the API to clients from outside, Transport to this process, as the administrator.
	http.Handler
	Transport() http.RoundTripper
	// Knows reports whether somebody whom the cluster knows has sent a request.
	Knows(*http.Request) bool
	// Administrator is the certificate and the key of the administrator, as PEM.
	Administrator() (certificate, key []byte)
	// Rest reports whether no loop works, and when one will have something to do although nobody asks. That is the zero
	// time if none will.
	Rest() (rests bool, due time.Time)
	// Use returns the number of objects, and of bytes on the disk.
	Use(context.Context) (objects int, bytes int64)
	// Fork makes a directory with the objects as they were at a moment, "" being now, and returns the revision of that.
	Fork(ctx context.Context, directory, at string) (revision int64, err error)
	// Failed receives an error if the cluster has ended by itself.
	Failed() <-chan error
	Close() error
}

// Settings say how a plane is run.
type Settings struct {
	Name            string
	Nodes           int
	Paused, Outward bool
	SleepAfter      time.Duration
	Requests        int
	Objects         int
	Bytes           int64
}

// plane is a control plane: a row, and its cluster while it is awake.
type plane struct {
	directory string // empty if it is in memory
	start     func(ctx context.Context, directory string, s Settings) (Cluster, error)
	changes   func() // is called after each change of the phase

	mu       sync.Mutex // guards what follows
	settings Settings
	applied  Settings // those with which the cluster was started
	cluster  Cluster  // nil while the plane sleeps
	moving   chan struct{}
	gone     bool
	users    int       // requests that are being answered
	used     time.Time // by somebody who is known
	due      time.Time // when it must be woken
	failure  error     // why it could not be woken
}

var (
	errGone = errors.New("the control plane is being deleted")
	errBusy = errors.New("the control plane answers as many requests as its limits allow")
)

// startTime bounds how long a plane may take to start.
const startTime = time.Minute

// acquire wakes the plane, if it sleeps, and keeps it awake until release is called.
func (p *plane) acquire(ctx context.Context) (Cluster, error) {
	for {
		p.mu.Lock()
		switch {
		case p.gone:
			p.mu.Unlock()
			return nil, errGone
		case p.settings.Requests > 0 && p.users >= p.settings.Requests:
			p.mu.Unlock()
			return nil, errBusy
		case p.cluster != nil:
			p.users++
			c := p.cluster
			p.mu.Unlock()
			return c, nil
		case p.moving == nil:
			p.wakeLocked()
			failure := p.failure
			p.mu.Unlock()
			if failure != nil {
				return nil, failure
			}
			continue
		}
		moving := p.moving
		p.mu.Unlock()
		select {
		case <-moving:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if failure := p.failed(); failure != nil { // who waits for a start does not try another one
			return nil, failure
		}
	}
}

// failed returns why the last start failed, if it did.
func (p *plane) failed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failure
}

func (p *plane) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users--
}

// fresh reports whether it was noted a moment ago that somebody has asked: then it need not be found out who asks now.
func (p *plane) fresh(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return now.Sub(p.used) < lookEvery
}

// use notes that somebody who is known has asked.
func (p *plane) use(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used = now
}

// wakeLocked starts the cluster, and returns with the plane locked. Nothing of the caller reaches the cluster: not who it
// is in the host, and not that it goes away, since others may wait as well.
func (p *plane) wakeLocked() {
	moving, settings := make(chan struct{}), p.settings
	p.moving = moving
	p.mu.Unlock()
	limited, cancel := context.WithTimeout(context.Background(), startTime)
	c, err := p.start(limited, p.directory, settings)
	cancel()
	if err == nil {
		err = forgetDue(p.directory)
	}
	p.mu.Lock()
	p.failure = nil
	if err != nil {
		p.failure = fmt.Errorf("the control plane cannot be started: %w", err)
	}
	p.cluster, p.applied, p.due, p.used = c, settings, time.Time{}, time.Now()
	p.movedLocked(moving)
}

// movedLocked ends a move, of which others are told.
func (p *plane) movedLocked(moving chan struct{}) {
	p.moving = nil
	close(moving)
	p.changes()
}

// sleep closes the cluster if nobody uses it, and reports whether it did. Requests that come meanwhile wait, and wake it
// again.
func (p *plane) sleep() (bool, error) {
	p.mu.Lock()
	if p.cluster == nil || p.moving != nil || p.users > 0 {
		p.mu.Unlock()
		return false, nil
	}
	return true, p.closeLocked(true)
}

// closeLocked closes the cluster, and unlocks the plane.
func (p *plane) closeLocked(due bool) error {
	moving, c := make(chan struct{}), p.cluster
	p.moving, p.cluster = moving, nil
	p.mu.Unlock()
	var wakes time.Time
	if due {
		_, wakes = c.Rest()
	}
	err := c.Close()
	if due && err == nil {
		err = keepDue(p.directory, wakes)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.due = wakes
	p.movedLocked(moving)
	return err
}

// set says how the plane is to be run. If it is awake and runs in another way, it is started again.
func (p *plane) set(ctx context.Context, s Settings) error {
	p.mu.Lock()
	p.settings = s
	s.SleepAfter, s.Requests = p.applied.SleepAfter, p.applied.Requests
	if p.cluster == nil || p.moving != nil || s == p.applied {
		p.mu.Unlock()
		return nil
	}
	if err := p.closeLocked(false); err != nil {
		return err
	}
	if _, err := p.acquire(ctx); err != nil {
		return err
	}
	p.release()
	return nil
}

// end closes the cluster, whoever uses it. Nobody wakes it any more.
func (p *plane) end(ctx context.Context) error {
	for {
		p.mu.Lock()
		p.gone = true
		moving := p.moving
		switch {
		case moving != nil:
			p.mu.Unlock()
			select {
			case <-moving:
				continue
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		case p.cluster != nil:
			return p.closeLocked(false)
		}
		p.mu.Unlock()
		return nil
	}
}

// broken reports whether the cluster has ended by itself.
func (p *plane) broken() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cluster == nil || p.moving != nil {
		return false
	}
	select {
	case p.failure = <-p.cluster.Failed():
		return true
	default:
		return false
	}
}

// reset closes a cluster that is broken, whoever uses it, and returns why it was.
func (p *plane) reset() error {
	p.mu.Lock()
	why := p.failure
	if p.cluster == nil || p.moving != nil {
		p.mu.Unlock()
		return why
	}
	return errors.Join(why, p.closeLocked(false))
}

// sleeps reports whether the plane is not awake.
func (p *plane) sleeps() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cluster == nil
}

// idle reports whether nobody has used the plane for as long as its settings say, so that it may sleep.
func (p *plane) idle(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.directory != "" && p.cluster != nil && p.moving == nil && p.users == 0 && p.settings.SleepAfter > 0 &&
		now.Sub(p.used) >= p.settings.SleepAfter
}

// overdue reports whether the sleeping plane has something to do.
func (p *plane) overdue(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cluster == nil && p.moving == nil && !p.gone && !p.due.IsZero() && !now.Before(p.due)
}

// phase returns how the plane is.
func (p *plane) phase() (phase string, due time.Time, failure error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.cluster != nil:
		return Awake, time.Time{}, nil
	case p.failure != nil:
		return Failed, time.Time{}, p.failure
	}
	return Asleep, p.due, nil
}

// awake returns the cluster if it is awake, until release is called.
func (p *plane) awake() Cluster {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cluster != nil {
		p.users++
	}
	return p.cluster
}
