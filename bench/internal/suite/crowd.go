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

// crowd is many watches.
type crowd struct {
	followers []*follower
	total     atomic.Int64
	conns     []*h2.Conn
	idleLimit time.Duration // how long nothing may come; stuck if zero
}

// openTimeout is how long all watches of a crowd may take to open.
const openTimeout = 2 * time.Minute

// open opens a watch for each follower, some of which share a connection, and waits until all have been answered.
func (b *Bench) open(ctx context.Context, k *crowd, path func(i int) string, header []hpack.HeaderField) error {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	var c *h2.Conn
	room := 0
	for i, f := range k.followers {
		if room == 0 || f.gate != nil {
			var err error
			if c, err = b.Server.Dial(ctx); err != nil {
				return err
			}
			k.conns = append(k.conns, c)
			room = min(b.Streams, c.MaxStreams())
		}
		room--
		if f.gate != nil {
			room = 0 // a slow one has a connection of its own
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

// stuck is how long nothing may come before what is missing is given up.
const stuck = 5 * time.Second

// wait waits until these followers have seen everything, or nothing more comes. It tells when the last event came.
func (k *crowd) wait(ctx context.Context, followers []*follower) time.Time {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	idleLimit := cmp.Or(k.idleLimit, stuck)
	last, progress := k.total.Load(), time.Now()
	for _, f := range followers {
		for waiting := true; waiting; {
			select {
			case <-f.done:
				waiting = false
			case <-ctx.Done():
				return progress
			case now := <-tick.C:
				if n := k.total.Load(); n != last {
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
func (k *crowd) close() {
	for _, c := range k.conns {
		c.Close()
	}
}

// account is what all have seen, and what they should have and did not. The crowd must be closed.
func (k *crowd) account(b *Bench) {
	for _, f := range k.followers {
		b.Lost(f.lost())
		b.Times(f.took)
	}
}
