package millrace

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// stage is one part of a cluster: goroutines that end with a context, and resources that are closed after them.
type stage struct {
	name    string
	cancel  context.CancelCauseFunc
	running sync.WaitGroup
	close   func() error
}

var errClosing = errors.New("the cluster is closing")

// run starts a part. If it ends before the cluster is closed, that is reported to Failed.
func (c *Cluster) run(name string, parts ...func(context.Context) error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	s := &stage{name: name, cancel: cancel}
	c.stages = append(c.stages, s)
	for _, part := range parts {
		s.running.Go(func() {
			err := part(ctx)
			if ctx.Err() != nil {
				return
			}
			select {
			case c.failed <- fmt.Errorf("%s ended: %w", name, err):
			default:
			}
		})
	}
}

// opened registers something that must be closed.
func (c *Cluster) opened(name string, close func() error) {
	c.stages = append(c.stages, &stage{name: name, cancel: func(error) {}, close: close})
}

func (s *stage) end() error {
	s.cancel(errClosing)
	s.running.Wait()
	if s.close == nil {
		return nil
	}
	return s.close()
}
