package custom

import (
	"context"
	"fmt"
	"maps"

	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/watchcache"
	"github.com/millrace/millrace/internal/sleep"
)

// Run follows the definitions until ctx ends.
func (d *Definitions) Run(ctx context.Context) error {
	defer d.ending.Wait()
	defer d.close()
	d.ending.Go(func() { d.rest(ctx) })
	for ctx.Err() == nil {
		wake, err := d.read(ctx)
		if err != nil {
			if !sleep.For(ctx, retryAfter) {
				break
			}
			continue
		}
		more := d.settle(ctx)
		select {
		case <-wake:
		case <-more:
		case <-ctx.Done():
		}
	}
	return nil
}

// CatchUp asks the log how far it is, and serves all definitions up to there.
func (d *Definitions) CatchUp(ctx context.Context) error {
	if _, err := d.o.Fresh(ctx); err != nil {
		return fmt.Errorf("ask for the newest definitions: %w", err)
	}
	_, err := d.read(ctx)
	return err
}

// Settle serves the definitions as this server has acknowledged them. That takes no time unless one has just changed.
func (d *Definitions) Settle(ctx context.Context) error {
	wrote := d.storage.Wrote()
	if int64(wrote) <= d.seen.Load() {
		return nil
	}
	if err := d.o.Registry.Cache.WaitFor(ctx, wrote); err != nil {
		return fmt.Errorf("wait for the newest definitions: %w", err)
	}
	_, err := d.read(ctx)
	return err
}

// read serves what has come since it was read last. The channel is closed when there may be more.
func (d *Definitions) read(ctx context.Context) (<-chan struct{}, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	reached := d.o.Registry.Cache.Revision()
	if err := d.stream.CatchUp(ctx); err != nil {
		return nil, fmt.Errorf("follow %v: %w", Resource, err)
	}
	for name := range d.gone {
		d.forgetLocked(name)
	}
	d.gone = nil
	d.seen.Store(int64(reached))
	return d.stream.Wakes()[0], nil
}

// beginLocked has all definitions looked at again: the store may have been restored, and a lower revision be the newer
// state.
func (d *Definitions) beginLocked() {
	d.gone = maps.Clone(d.known)
	for _, r := range d.known {
		r.revision = 0
	}
}

func (d *Definitions) receiveLocked(ctx context.Context, _ *resource.Kind, e registry.Event) error {
	name := e.Object.Name()
	delete(d.gone, name)
	if e.Type == watch.Deleted {
		d.forgetLocked(name)
	} else {
		d.noteLocked(ctx, e.Object)
	}
	return nil
}

func (d *Definitions) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stream.Close()
}

// noteLocked serves a definition as it is now.
func (d *Definitions) noteLocked(ctx context.Context, o *watchcache.Object) {
	name := o.Name()
	before := d.known[name]
	if before != nil && before.revision >= o.Revision {
		return
	}
	now := before
	if now == nil {
		now = &record{group: groupIn(name)}
		d.known[name] = now
	}
	def, schemas, err := d.decodeBrief(ctx, o.Value(), o.Revision)
	now.revision, now.unreadable = o.Revision, err
	if err != nil {
		d.o.Logger.Error("a definition cannot be read", "name", name, "error", err)
		return
	}
	now.group, now.terminating = def.Spec.Group, def.DeletionTimestamp != nil
	_, due := d.dueLocked(def)
	d.yield(def)
	if !now.settling {
		d.tookLocked(now, def.Status.AcceptedNames)
		if due || now.terminating {
			d.dirtyLocked(name)
		}
	}
	d.serveLocked(def, schemas, o, now)
}

// serveLocked exchanges the kinds of a definition, which is read without its schemas.
func (d *Definitions) serveLocked(def *v1.CustomResourceDefinition, schemas []digest, o *watchcache.Object, r *record) {
	if !isServed(def) {
		d.withdrawLocked(r)
		return
	}
	read := func() (*v1.CustomResourceDefinition, error) {
		return d.decode(context.Background(), o.Value(), o.Revision)
	}
	made, err := d.conversions.define(def, schemas, read, r.served)
	if err == nil {
		err = d.o.Registry.Exchange(groupResource(def), made.kinds...)
	}
	if err != nil {
		d.o.Logger.Error("a definition cannot be served", "name", def.Name, "error", err)
		r.unreadable = err
		return
	}
	r.served = made
}

func (d *Definitions) withdrawLocked(r *record) {
	if r.served == nil {
		return
	}
	if err := d.o.Registry.Exchange(r.served.identity.GroupResource()); err != nil {
		d.o.Logger.Error("a definition cannot be withdrawn", "name", r.served.name, "error", err)
	}
	r.served = nil
}

// forgetLocked stops serving a definition that is gone.
func (d *Definitions) forgetLocked(name string) {
	r := d.known[name]
	if r == nil {
		return
	}
	d.withdrawLocked(r)
	delete(d.known, name)
	delete(d.todo, name)
	d.dirtyGroupLocked(r.group)
}

// dirtyLocked has a definition's conditions looked at.
func (d *Definitions) dirtyLocked(name string) {
	d.todo[name] = true
	close(d.more)
	d.more = make(chan struct{})
}

func (d *Definitions) dirtyGroupLocked(group string) {
	for name, r := range d.known {
		if r.group == group {
			d.dirtyLocked(name)
		}
	}
}

// namesOf are the names that a definition has taken.
func namesOf(n v1.CustomResourceDefinitionNames) []string {
	return append([]string{n.Plural, n.Singular, n.Kind, n.ListKind}, n.ShortNames...)
}
