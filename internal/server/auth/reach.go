package auth

import (
	"context"

	"github.com/millrace/millrace/internal/server/store"
)

// Reach is the namespaces in which a user may do something.
type Reach struct {
	// All says that it is every namespace; otherwise Names are those, sorted.
	All   bool
	Names []string
	// Revision is the state of the cluster that it was read from, and Changed that of the last change after which any
	// user's reach may have been another one.
	Revision, Changed store.Revision
}

// Reacher knows in which namespaces users may do something.
type Reacher interface {
	// Reach reads it from the state of a revision or a later one, and from all that this server has acknowledged. What
	// known says is used again if nothing can have changed since. Nil is nothing known; then it is also read from all
	// that other servers have acknowledged, as long as the store answers. The caller may change what it gets.
	Reach(ctx context.Context, u User, at store.Revision, known *Reach) (*Reach, error)
	// Changed is closed when anybody's reach may have changed.
	Changed() <-chan struct{}
}
