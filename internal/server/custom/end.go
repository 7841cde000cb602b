package custom

import (
	"context"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/sleep"
)

// endPage is how many objects are deleted at a time.
const endPage = 500

// end deletes the objects of a definition, and then lets it go, unless that is being done already.
func (d *Definitions) end(ctx context.Context, name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.known[name]
	if r == nil || r.ending {
		return
	}
	r.ending = true
	served := r.served
	d.ending.Go(func() {
		err := d.endObjects(ctx, name, served)
		d.mu.Lock()
		if r := d.known[name]; r != nil {
			r.ending = false
		}
		d.mu.Unlock()
		if err != nil && ctx.Err() == nil {
			d.o.Logger.Warn("the objects of a definition could not be deleted", "name", name, "error", err)
			d.later(ctx, name)
		}
	})
}

func (d *Definitions) endObjects(ctx context.Context, name string, served *definition) error {
	done := v1.CustomResourceDefinitionCondition{
		Type: v1.Terminating, Status: v1.ConditionFalse, Reason: "NeverEstablished", Message: "resource was never established"}
	if served != nil {
		if err := d.say(ctx, name, "InstanceDeletionInProgress", "CustomResource deletion is in progress"); err != nil {
			return err
		}
		if err := d.deleteAll(ctx, served); err != nil {
			_ = d.say(ctx, name, "InstanceDeletionFailed", fmt.Sprintf("could not issue all deletes: %v", err))
			return err
		}
		done.Reason, done.Message = "InstanceDeletionCompleted", "removed all instances"
	}
	_, err := d.change(ctx, name, func(def *v1.CustomResourceDefinition) {
		apihelpers.SetCRDCondition(def, done)
		apihelpers.CRDRemoveFinalizer(def, v1.CustomResourceCleanupFinalizer)
	})
	return err
}

// say tells how far the deletion of objects is.
func (d *Definitions) say(ctx context.Context, name, reason, message string) error {
	_, err := d.change(ctx, name, func(def *v1.CustomResourceDefinition) {
		apihelpers.SetCRDCondition(def, v1.CustomResourceDefinitionCondition{Type: v1.Terminating, Status: v1.ConditionTrue, Reason: reason, Message: message})
	})
	return err
}

// deleteAll deletes all objects, page by page, and returns when they are gone: some may have finalizers of their own.
func (d *Definitions) deleteAll(ctx context.Context, served *definition) error {
	storage, err := d.o.Registry.Storage(served.kinds[0])
	if err != nil {
		return err
	}
	for {
		left := 0
		for q := (registry.ListQuery{Limit: endPage}); ; {
			page, err := storage.DeleteCollection(ctx, q, metav1.DeleteOptions{}, registry.WriteOptions{})
			if err != nil {
				return err
			}
			left += len(page.Objects)
			if q.Continue = page.Continue; q.Continue == "" {
				break
			}
		}
		if left == 0 {
			return nil
		}
		rest, err := storage.List(ctx, registry.ListQuery{Limit: 1})
		if err != nil || len(rest.Objects) == 0 {
			return err
		}
		if !sleep.For(ctx, retryAfter) {
			return context.Cause(ctx)
		}
	}
}
