package loop

import "context"

// Notes are what a loop remembers of its writes.
type Notes struct{ writes writes }

// Syncing returns the context of a Sync of a key.
func (n *Notes) Syncing(ctx context.Context, key Key) context.Context {
	return context.WithValue(ctx, syncingKey{}, syncing{&n.writes, key})
}

// Settled is called before each Sync.
func (n *Notes) Settled(ctx context.Context, key Key) error { return n.writes.settled(ctx, key) }

// Pending is for how many keys writes are remembered.
func (n *Notes) Pending() int { return len(n.writes.pending) }
