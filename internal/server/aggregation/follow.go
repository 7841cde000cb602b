package aggregation

import (
	"context"
	"fmt"
	"time"

	apiwatch "k8s.io/apimachinery/pkg/watch"
	v1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/watchcache"
	"github.com/millrace/millrace/internal/sleep"
)

// retryAfter is how long Run waits before it reads all APIServices anew after a failure.
const retryAfter = 100 * time.Millisecond

func (a *Aggregator) storage() (*registry.Storage, error) {
	return storageOf(a.o.Registry, "apiregistration.k8s.io", "apiservices")
}

// follow makes a snapshot after each change of an APIService that another server answers for.
func (a *Aggregator) follow(ctx context.Context) error {
	defer a.stopAll()
	for ctx.Err() == nil {
		if err := a.followOnce(ctx); ctx.Err() == nil {
			a.log.Info("API services are read again", "reason", err)
			sleep.For(ctx, retryAfter)
		}
	}
	return ctx.Err()
}

func (a *Aggregator) followOnce(ctx context.Context) error {
	storage, err := a.storage()
	if err != nil {
		return err
	}
	w, err := storage.Watch(ctx, registry.WatchQuery{Freshness: registry.Freshness{Any: true}, Initial: true})
	if err != nil {
		return err
	}
	defer w.Close()
	all := map[string]*v1.APIService{}
	for _, o := range w.Initial {
		a.note(ctx, storage, all, o, false)
	}
	w.Initial = nil
	a.publish(ctx, all)
	for {
		select {
		case a.changed <- struct{}{}:
		default:
		}
		select {
		case <-w.Wake():
		case <-ctx.Done():
			return ctx.Err()
		}
		changed := false
		for {
			e, ok, err := w.Next()
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			changed = a.note(ctx, storage, all, e.Object, e.Type == apiwatch.Deleted) || changed
		}
		if changed {
			a.publish(ctx, all)
		}
	}
}

// note keeps an APIService if another server answers for it. It reports whether that makes a difference.
func (a *Aggregator) note(ctx context.Context, s *registry.Storage, all map[string]*v1.APIService, o *watchcache.Object, gone bool) bool {
	was := all[o.Name()] != nil
	delete(all, o.Name())
	if gone {
		return was
	}
	service, err := decode[*v1.APIService](ctx, s, o)
	if err != nil {
		a.log.Error("an API service cannot be read", "name", o.Name(), "error", err)
		return was
	}
	if service.Spec.Service == nil {
		return was
	}
	all[o.Name()] = service
	return true
}

// publish exchanges the snapshot, and has a checker for each remote.
func (a *Aggregator) publish(ctx context.Context, all map[string]*v1.APIService) {
	before := a.now.Load()
	now := a.snapshotOf(before, all)
	a.now.Store(now)
	for name, r := range before.remotes {
		if next := now.remotes[name]; next == nil || next.connections != r.connections {
			r.connections.close()
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, c := range a.checkers {
		if r := now.remotes[name]; r == nil || r.connections != c.connections {
			c.stop()
			delete(a.checkers, name)
		}
	}
	for name, r := range now.remotes {
		if a.checkers[name] == nil {
			a.checkers[name] = a.startChecker(ctx, r)
		}
	}
}

func (a *Aggregator) stopAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, c := range a.checkers {
		c.stop()
		delete(a.checkers, name)
	}
	for _, r := range a.now.Load().remotes {
		r.connections.close()
	}
}

func storageOf(r *registry.Registry, group, of string) (*registry.Storage, error) {
	kind, ok := r.Catalogue.Kind(groupResource(group, of))
	if !ok {
		return nil, fmt.Errorf("%s are not served", of)
	}
	return r.Storage(kind)
}
