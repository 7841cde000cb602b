package suite

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/bench/internal/h2"
	"golang.org/x/net/http2/hpack"
)

// watchGroup is a group of many watches.
type watchGroup struct {
	followers []*follower
	total     atomic.Int64
	conns     []*h2.Conn
	idleLimit time.Duration // how long to wait for the next event; zero: idleTimeout
}

// openTimeout is how long all watches of a group may take to open.
const openTimeout = 2 * time.Minute

// open opens a watch for each follower, several on one connection, and waits until all have been answered.
func (b *Bench) open(ctx context.Context, k *watchGroup, path func(i int) string, header []hpack.HeaderField) error {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	var c *h2.Conn
	room := 0
	for i, f := range k.followers {
		if room == 0 || f.startReading != nil {
			var err error
			if c, err = b.Server.Dial(ctx); err != nil {
				return err
			}
			k.conns = append(k.conns, c)
			room = min(b.Streams, c.MaxStreams())
		}
		room--
		if f.startReading != nil {
			room = 0 // a slow watcher has its own connection
		}
		if _, err := c.Open(h2.Request{Method: "GET", Path: path(i), Header: header}, f); err != nil {
			return err
		}
	}
	for i, f := range k.followers {
		select {
		case err := <-f.opened:
			if err != nil {
				return fmt.Errorf("watch %d: %w", i, err)
			}
		case <-ctx.Done():
			return fmt.Errorf("watch %d did not open: %w", i, ctx.Err())
		}
	}
	return nil
}

// idleTimeout is how long to wait for the next event before missing ones count as lost.
const idleTimeout = 5 * time.Second

// wait waits until these followers have received everything, or no event arrives any more. It returns when the last
// event arrived.
func (w *watchGroup) wait(ctx context.Context, followers []*follower) time.Time {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	idleLimit := cmp.Or(w.idleLimit, idleTimeout)
	last, progress := w.total.Load(), time.Now()
	for _, f := range followers {
		for waiting := true; waiting; {
			select {
			case <-f.done:
				waiting = false
			case <-ctx.Done():
				return progress
			case now := <-tick.C:
				if n := w.total.Load(); n != last {
					last, progress = n, now
				} else if now.Sub(progress) > idleLimit {
					return progress
				}
			}
		}
	}
	return time.Now()
}

// close ends all watches.
func (w *watchGroup) close() {
	for _, c := range w.conns {
		c.Close()
	}
}

// countEvents adds received and lost events. The group must be closed.
func (w *watchGroup) countEvents(b *Bench) {
	for _, f := range w.followers {
		b.Lost(f.lost())
		b.Times(f.took)
	}
}
