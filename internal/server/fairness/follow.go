package fairness

import (
	"context"
	"fmt"
	"math"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// retryAfter is how long Run waits before it starts anew after a failure.
const retryAfter = 100 * time.Millisecond

// Run follows the configuration of the cluster, and divides the seats anew from time to time, until the context ends.
func (d *Dispatcher) Run(ctx context.Context) error {
	borrowing := time.NewTicker(borrowEvery)
	defer borrowing.Stop()
	for ctx.Err() == nil {
		if err := d.follow(ctx, borrowing.C); err != nil && ctx.Err() == nil {
			d.o.Logger.Debug("the configuration of flow control is read anew", "error", err)
			select {
			case <-time.After(retryAfter):
			case <-ctx.Done():
			}
		}
	}
	return nil
}

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
	find := func(of string) (*registry.Storage, error) {
		kind, ok := d.o.Registry.Catalogue.Kind(flowcontrolv1.Resource(of))
		if !ok {
			return nil, ErrNoKinds
		}
		return d.o.Registry.Storage(kind)
	}
	if schemas, err = find("flowschemas"); err == nil {
		levels, err = find("prioritylevelconfigurations")
	}
	return schemas, levels, err
}

// follow reads the configuration again with each change of it. It returns when a watch has ended.
func (d *Dispatcher) follow(ctx context.Context, borrowing <-chan time.Time) error {
	schemas, levels, err := d.storages()
	if err != nil {
		d.waitFor(ctx, borrowing)
		return err
	}
	watchers := [2]*registry.Watcher{}
	for i, s := range []*registry.Storage{schemas, levels} {
		w, err := s.Watch(ctx, registry.WatchQuery{Selection: registry.Select(s.Kind().Faces[0], "", "", nil, nil)})
		if err != nil {
			return err
		}
		defer w.Close()
		watchers[i] = w
	}
	changed := true
	for {
		if changed {
			if err := d.read(ctx, schemas, levels); err != nil {
				return err
			}
			d.noteDangling(ctx, schemas)
		}
		wakes := [2]<-chan struct{}{watchers[0].Wake(), watchers[1].Wake()}
		if changed, err = drain(watchers); err != nil {
			return err
		} else if changed {
			continue
		}
		select {
		case <-wakes[0]:
		case <-wakes[1]:
		case <-borrowing:
			d.borrow()
		case <-ctx.Done():
			return nil
		}
	}
}

// waitFor divides the seats once, where there is nothing to follow.
func (d *Dispatcher) waitFor(ctx context.Context, borrowing <-chan time.Time) {
	select {
	case <-borrowing:
		d.borrow()
	case <-ctx.Done():
	}
}

func drain(watchers [2]*registry.Watcher) (changed bool, err error) {
	for _, w := range watchers {
		for {
			_, ok, err := w.Next()
			if err != nil {
				return changed, err
			}
			if !ok {
				break
			}
			changed = true
		}
	}
	return changed, nil
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
