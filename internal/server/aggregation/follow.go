package aggregation

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	v1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/millrace/millrace/internal/server/follow"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/sleep"
)

// retryAfter is how long Run waits before it reads all APIServices anew after a failure.
const retryAfter = 100 * time.Millisecond

func (a *Aggregator) storage() (*registry.Storage, error) {
	return storageOf(a.o.Registry, apiServices)
}

// remotes are the APIServices that other servers answer for.
type remotes struct {
	log     *slog.Logger
	all     map[string]*v1.APIService
	changed bool // since they were published
}

// follow makes a snapshot after each change of an APIService that another server answers for.
func (a *Aggregator) follow(ctx context.Context) error {
	defer a.stopAll()
	r := &remotes{log: a.log}
	stream := follow.NewStream(follow.StreamOptions{
		Registry: a.o.Registry, Kinds: []schema.GroupResource{apiServices}, Freshness: registry.Freshness{Any: true},
		Begin: r.begin, Receive: r.receive, Logger: a.log,
	})
	defer stream.Close()
	for ctx.Err() == nil {
		if err := stream.CatchUp(ctx); err != nil {
			a.log.Info("API services cannot be read", "error", err)
			sleep.For(ctx, retryAfter)
			continue
		}
		if r.changed {
			r.changed = false
			a.publish(ctx, r.all)
		}
		select {
		case a.changed <- struct{}{}:
		default:
		}
		select {
		case <-stream.Wakes()[0]:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

func (r *remotes) begin() { r.all, r.changed = map[string]*v1.APIService{}, true }

// receive keeps an APIService if another server answers for it, and notes whether that makes a difference.
func (r *remotes) receive(ctx context.Context, kind *resource.Kind, e registry.Event) error {
	name := e.Object.Name()
	r.changed = r.changed || r.all[name] != nil
	delete(r.all, name)
	if e.Type == watch.Deleted {
		return nil
	}
	service, err := decode[*v1.APIService](ctx, kind, e.Object)
	switch {
	case err != nil:
		r.log.Error("an API service cannot be read", "name", name, "error", err)
	case service.Spec.Service != nil:
		r.all[name], r.changed = service, true
	}
	return nil
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

func storageOf(r *registry.Registry, of schema.GroupResource) (*registry.Storage, error) {
	kind, ok := r.Catalogue.Kind(of)
	if !ok {
		return nil, fmt.Errorf("%s are not served", of.Resource)
	}
	return r.Storage(kind)
}
