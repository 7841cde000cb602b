// Package limits bounds what all objects of a cluster take together. What is beyond is refused; deletes never are.
package limits

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// Options say what is bounded. Zero is no limit.
type Options struct {
	// Objects bounds the number of objects. Bytes bounds the store, with its past; it may be passed by what is written
	// in measureEvery.
	Objects int
	Bytes   int64
	// Count returns the number of objects, and Size the bytes of the store.
	Count func() int
	Size  func(context.Context) (int64, error)
}

// measureEvery is how often the store is measured.
const measureEvery = time.Second

// New returns the admission plugin, which refuses what users and loops write, and nothing that the server writes itself.
func New(o Options) registry.Admission {
	measured := &size{of: o.Size}
	return registry.Admission{Name: "ControlPlaneLimits", Validate: func(ctx context.Context, c *registry.Change) error {
		if resource.CallFrom(ctx).User == "" || c.Operation != registry.Create && c.Operation != registry.Update {
			return nil
		}
		if n := o.Objects; n > 0 && c.Operation == registry.Create && o.Count() >= n {
			return apierrors.NewForbidden(c.Kind.GroupResource(), c.Name, fmt.Errorf("exceeded the limit of this control plane: %d objects", n))
		}
		if n := o.Bytes; n > 0 && measured.now(ctx) >= n {
			return apierrors.NewForbidden(c.Kind.GroupResource(), c.Name, fmt.Errorf("exceeded the limit of this control plane: %d bytes", n))
		}
		return nil
	}}
}

// size remembers how large a store is for a while.
type size struct {
	of func(context.Context) (int64, error)

	mu    sync.Mutex // guards what follows
	bytes int64
	at    time.Time
}

func (s *size) now(ctx context.Context) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.at) < measureEvery {
		return s.bytes
	}
	if n, err := s.of(ctx); err == nil { // a store that cannot be measured refuses by itself
		s.bytes, s.at = n, time.Now()
	}
	return s.bytes
}
