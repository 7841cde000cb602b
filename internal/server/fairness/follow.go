package fairness

import (
	"context"
	"fmt"
	"math"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/follow"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// retryAfter is how long Run waits before it starts anew after a failure.
const retryAfter = 100 * time.Millisecond

// Run follows the configuration of the cluster, and divides the seats anew from time to time, until the context ends.
func (d *Dispatcher) Run(ctx context.Context) error {
	borrowing := time.NewTicker(borrowEvery)
	defer borrowing.Stop()
	if _, _, err := d.storages(); err != nil { // there is nothing to follow
		return d.onlyBorrow(ctx, borrowing.C)
	}
	changed := false
	stream := follow.NewStream(follow.StreamOptions{
		Registry: d.o.Registry, Kinds: []schema.GroupResource{schemaResource, levelResource},
		Begin: func() { changed = true },
		Receive: func(context.Context, *resource.Kind, registry.Event) error {
			changed = true
			return nil
		},
	})
	defer stream.Close()
	for ctx.Err() == nil {
		retry := (<-chan time.Time)(nil)
		if err := d.follow(ctx, stream, &changed); err != nil && ctx.Err() == nil {
			d.o.Logger.Debug("the configuration of flow control is read anew", "error", err)
			retry = time.After(retryAfter)
		}
		wakes := stream.Wakes()
		select {
		case <-wakes[0]:
		case <-wakes[1]:
		case <-borrowing.C:
			d.borrow()
		case <-retry:
		case <-ctx.Done():
		}
	}
	return nil
}

// follow reads the configuration again if it has changed.
func (d *Dispatcher) follow(ctx context.Context, stream *follow.Stream, changed *bool) error {
	if err := stream.CatchUp(ctx); err != nil || !*changed {
		return err
	}
	schemas, levels, err := d.storages()
	if err != nil {
		return err
	}
	if err := d.read(ctx, schemas, levels); err != nil {
		return err
	}
	*changed = false
	d.noteDangling(ctx, schemas)
	return nil
}

func (d *Dispatcher) onlyBorrow(ctx context.Context, due <-chan time.Time) error {
	for {
		select {
		case <-due:
			d.borrow()
		case <-ctx.Done():
			return nil
		}
	}
}

var schemaResource, levelResource = flowcontrolv1.Resource("flowschemas"), flowcontrolv1.Resource("prioritylevelconfigurations")

// Prepare reads the configuration for the first time.
func (d *Dispatcher) Prepare(ctx context.Context) error {
	schemas, levels, err := d.storages()
	if err != nil {
		return err
	}
	return d.read(ctx, schemas, levels)
}

func (d *Dispatcher) storages() (schemas, levels *registry.Storage, err error) {
	if d.o.Registry == nil {
		return nil, nil, ErrNoKinds
	}
	find := func(of schema.GroupResource) (*registry.Storage, error) {
		kind, ok := d.o.Registry.Catalogue.Kind(of)
		if !ok {
			return nil, ErrNoKinds
		}
		return d.o.Registry.Storage(kind)
	}
	if schemas, err = find(schemaResource); err == nil {
		levels, err = find(levelResource)
	}
	return schemas, levels, err
}

func (d *Dispatcher) borrow() {
	if fraction, ok := d.now.Load().borrow(d.o.Seats, time.Now()); ok {
		d.fraction.Store(math.Float64bits(fraction))
	}
}

// read compiles what the cache has.
func (d *Dispatcher) read(ctx context.Context, schemas, levels *registry.Storage) error {
	s, err := list[*flowcontrolv1.FlowSchema](ctx, schemas)
	if err != nil {
		return err
	}
	l, err := list[*flowcontrolv1.PriorityLevelConfiguration](ctx, levels)
	if err != nil {
		return err
	}
	d.compile(s, l)
	return nil
}

func list[P resource.Object](ctx context.Context, s *registry.Storage) ([]P, error) {
	found, err := s.List(ctx, registry.ListQuery{Selection: registry.Select(s.Kind().Faces[0], "", "", nil, nil), Freshness: registry.Freshness{Any: true}})
	if err != nil {
		return nil, err
	}
	var out []P
	for _, o := range found.Objects {
		decoded, err := s.Kind().Decode(ctx, o.Value(), o.Revision.String())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.Key, err)
		}
		out = append(out, decoded.(P))
	}
	return out, nil
}
