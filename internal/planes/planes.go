package planes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
)

// Options are what planes are made of.
type Options struct {
	// Directory has a directory for each plane. Without one planes are in memory.
	Directory string
	// Start starts a plane's cluster with its directory, which may not exist.
	Start func(ctx context.Context, directory string, s Settings) (Cluster, error)
	// Host returns the URL of the host, and the authorities with which clients verify it. Without a URL nobody outside
	// of this process reaches planes.
	Host   func() (url string, authorities []byte)
	Logger *slog.Logger
}

// Planes are the control planes of a host.
type Planes struct {
	o      Options
	loop   *controlLoop // exists when looped is closed
	looped chan struct{}

	mu    sync.Mutex // guards what follows
	rows  map[types.UID]*plane
	ended bool
}

// New makes a manager of planes that has none yet: Loop has them made.
func New(o Options) *Planes {
	return &Planes{o: o, rows: map[types.UID]*plane{}, looped: make(chan struct{})}
}

var (
	errNone   = errors.New("there is no such control plane")
	errEnding = errors.New("the host is ending")
)

// directory returns that of a plane. It has the UID, so that a new plane never finds what another one of its name has
// left.
func (p *Planes) directory(c *ControlPlane) string {
	if p.o.Directory == "" {
		return ""
	}
	return filepath.Join(p.o.Directory, c.Name+"."+string(c.UID))
}

// row returns the row of a plane, and makes it if there is none. A plane that does not exist yet does not do so before
// it has been made.
func (p *Planes) row(c *ControlPlane) (*plane, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return nil, errEnding
	}
	if one := p.rows[c.UID]; one != nil {
		return one, nil
	}
	one := &plane{directory: p.directory(c), start: p.o.Start, settings: c.settings(), changes: func() { p.loop.changed(c.Name) }}
	if one.directory != "" {
		if _, err := os.Stat(one.directory); err == nil {
			if one.due, err = readDue(one.directory, time.Now()); err != nil {
				return nil, err
			}
		}
	}
	p.rows[c.UID] = one
	return one, nil
}

// find returns the row of the plane with a name.
func (p *Planes) find(ctx context.Context, name string) (*plane, error) {
	select {
	case <-p.looped:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	c, err := p.loop.get(ctx, name)
	if err != nil {
		return nil, err
	}
	if c == nil {
		return nil, errNone
	}
	if c.DeletionTimestamp != nil {
		return nil, errGone
	}
	one, err := p.row(c)
	if err == nil && c.Spec.From != nil && c.Status.Phase == "" {
		err = errNone // it has no objects yet
	}
	return one, err
}

// remove ends a plane and removes its directory.
func (p *Planes) remove(ctx context.Context, c *ControlPlane) error {
	one, err := p.row(c)
	if err != nil {
		return err
	}
	if err := one.end(ctx); err != nil {
		return fmt.Errorf("end the control plane: %w", err)
	}
	if err := removeDirectory(one.directory); err != nil {
		return fmt.Errorf("remove the control plane's directory: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.rows, c.UID)
	return nil
}

// all returns the rows.
func (p *Planes) all() []*plane {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*plane, 0, len(p.rows))
	for _, one := range p.rows {
		all = append(all, one)
	}
	return all
}

const (
	// lookEvery is how often the rows are looked at.
	lookEvery = time.Second
	// atOnce is how many planes are started, or closed, at the same time without anybody waiting for them.
	atOnce = 4
	// soon is how close the time at which a loop has something to do may be for a plane to stay awake.
	soon = 15 * time.Second
)

// Run puts planes to sleep, and wakes them when they have something to do, until ctx ends.
func (p *Planes) Run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			p.look(ctx, now)
		}
	}
}

// look looks at all rows once.
func (p *Planes) look(ctx context.Context, now time.Time) {
	var moves errgroup.Group
	moves.SetLimit(atOnce)
	for _, one := range p.all() {
		switch {
		case one.broken():
			moves.Go(func() error { p.closeBroken(one); return nil })
		case one.overdue(now):
			moves.Go(func() error { p.wakeUp(ctx, one); return nil })
		case one.idle(now):
			moves.Go(func() error { p.putToSleep(one, now); return nil })
		}
	}
	_ = moves.Wait() // none fails
}

// closeBroken closes a plane that has ended by itself, such as by a disk that failed: the next request starts it again.
func (p *Planes) closeBroken(one *plane) {
	err := one.reset()
	p.o.Logger.Error("a control plane has ended by itself, and is closed until the next request", "plane", one.settings.Name, "err", err)
}

// wakeUp wakes a plane because it has something to do.
func (p *Planes) wakeUp(ctx context.Context, one *plane) {
	if _, err := one.acquire(ctx); err != nil {
		if ctx.Err() == nil && !errors.Is(err, errGone) {
			p.o.Logger.Error("a control plane has something to do, but cannot be woken", "plane", one.settings.Name, "err", err)
		}
		return
	}
	one.release()
}

// putToSleep closes a plane that nobody has asked, unless it works or will soon.
func (p *Planes) putToSleep(one *plane, now time.Time) {
	c := one.awake()
	if c == nil {
		return
	}
	rests, due := c.Rest()
	one.release()
	if !rests || !due.IsZero() && due.Sub(now) < soon {
		return
	}
	if _, err := one.sleep(); err != nil {
		p.o.Logger.Error("a control plane was not closed in order", "plane", one.settings.Name, "err", err)
	}
}

// Close closes all planes.
func (p *Planes) Close() error {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	var closing errgroup.Group
	closing.SetLimit(atOnce)
	all := p.all()
	failures := make([]error, len(all))
	for i, one := range all {
		closing.Go(func() error {
			failures[i] = one.end(context.Background())
			return nil
		})
	}
	_ = closing.Wait() // failures has what fails
	return errors.Join(failures...)
}
