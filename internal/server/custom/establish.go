package custom

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/sleep"
)

// settle brings the conditions of definitions up to date. What it returns is closed when there is more to do.
func (d *Definitions) settle(ctx context.Context) <-chan struct{} {
	for {
		name, more := d.next()
		if name == "" {
			return more
		}
		if err := d.settleOne(ctx, name); err != nil && ctx.Err() == nil {
			d.o.Logger.Warn("the conditions of a definition could not be set", "name", name, "error", err)
			d.later(ctx, name)
		}
	}
}

// next takes a definition whose conditions have not been looked at.
func (d *Definitions) next() (name string, more <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name := range d.todo {
		delete(d.todo, name)
		return name, d.more
	}
	return "", d.more
}

// later has a definition looked at again after a while.
func (d *Definitions) later(ctx context.Context, name string) {
	d.ending.Go(func() {
		if !sleep.For(ctx, retryAfter) {
			return
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.dirtyLocked(name)
	})
}

func (d *Definitions) settleOne(ctx context.Context, name string) error {
	now, changes, err := d.due(ctx, name)
	if err == nil && changes {
		now, err = d.change(ctx, name, d.decide)
	}
	if err != nil || now == nil {
		return err
	}
	d.took(name, now.Status.AcceptedNames)
	if now.DeletionTimestamp != nil && apihelpers.CRDHasFinalizer(now, v1.CustomResourceCleanupFinalizer) {
		d.end(ctx, name)
	}
	return nil
}

// establishNew takes the names of a definition that is about to be stored, and sets its conditions when it is, before
// whoever made it is answered. The loop would have to read it again for that. A definition whose names another has is
// left to the loop.
func (d *Definitions) establishNew(ctx context.Context, def *v1.CustomResourceDefinition) (done func(*registry.Stored)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.stream.Following() || d.known[def.Name] != nil {
		return nil
	}
	now, _ := d.dueLocked(def)
	if !isServed(now) {
		return nil
	}
	r := &record{group: def.Spec.Group, accepted: now.Status.AcceptedNames, settling: true}
	d.known[def.Name] = r
	return func(created *registry.Stored) {
		last := d.settleNew(ctx, created, def, now)
		d.mu.Lock()
		defer d.mu.Unlock()
		r.settling = false
		switch {
		case d.known[def.Name] != r:
		case created == nil && r.revision == 0:
			d.forgetLocked(def.Name)
		case created != nil && (last == 0 || last < r.revision): // somebody else has changed it
			d.dirtyLocked(def.Name)
		}
	}
}

// settleNew stores the conditions of a definition that was just created, and returns the revision of that, or zero if
// they could not be stored.
func (d *Definitions) settleNew(ctx context.Context, created *registry.Stored, def, now *v1.CustomResourceDefinition) store.Revision {
	if created == nil || d.own(def, now) != nil {
		return 0
	}
	settled, err := d.storage.Follow(ctx, created, now)
	if err != nil {
		return 0
	}
	return settled.Entry.Revision
}

// decide sets the conditions of a definition.
func (d *Definitions) decide(def *v1.CustomResourceDefinition) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.decideLocked(def)
}

func (d *Definitions) decideLocked(def *v1.CustomResourceDefinition) {
	d.yield(def)
	d.acceptLocked(def)
	establish(def)
	approve(def)
}

// due tells whether the conditions of a definition have to change, and returns it, without its schemas, as it is then.
// Most have not, and it takes much less to see that than to try to change them. A definition that is gone is nil. What
// this server does not know yet is told by its log later.
func (d *Definitions) due(ctx context.Context, name string) (now *v1.CustomResourceDefinition, changes bool, err error) {
	o, err := d.storage.Get(ctx, "", name, registry.Freshness{Any: true})
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	before, _, err := d.decodeBrief(ctx, o.Value(), o.Revision)
	if err != nil {
		return nil, false, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now, changes = d.dueLocked(before)
	return now, changes, nil
}

// dueLocked returns a definition as its conditions have to be, and tells whether they are not.
func (d *Definitions) dueLocked(before *v1.CustomResourceDefinition) (now *v1.CustomResourceDefinition, changes bool) {
	now = withoutSpec(before)
	now.Spec = before.Spec // which is large, and stays as it is
	d.decideLocked(now)
	return now, !equality.Semantic.DeepEqual(before.Status, now.Status)
}

// took notes the names of a definition before the log tells: the next one may want them too.
func (d *Definitions) took(name string, names v1.CustomResourceDefinitionNames) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r := d.known[name]; r != nil {
		d.tookLocked(r, names)
	}
}

// tookLocked notes the names of a definition. Those that it had may be what others wait for.
func (d *Definitions) tookLocked(r *record, names v1.CustomResourceDefinitionNames) {
	if had := r.accepted; had.Plural != "" && !slices.Equal(namesOf(had), namesOf(names)) {
		d.dirtyGroupLocked(r.group)
	}
	r.accepted = names
}

// change changes a definition's status and finalizers. Nothing is written when nothing changes; a definition that is
// gone is none of our concern.
func (d *Definitions) change(ctx context.Context, name string, f func(*v1.CustomResourceDefinition)) (*v1.CustomResourceDefinition, error) {
	var now *v1.CustomResourceDefinition
	_, _, err := d.storage.Update(ctx, "", name, func(_ context.Context, old resource.Object) (resource.Object, error) {
		before := old.(*v1.CustomResourceDefinition)
		now = withoutSpec(before)
		now.Spec = before.Spec // which is large, and stays as it is
		f(now)
		return now, d.own(before, now)
	}, registry.UpdateOptions{View: "status", Own: true})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return now, err
}

// withoutSpec is a copy of a definition less what it defines.
func withoutSpec(def *v1.CustomResourceDefinition) *v1.CustomResourceDefinition {
	return &v1.CustomResourceDefinition{TypeMeta: def.TypeMeta, ObjectMeta: *def.ObjectMeta.DeepCopy(), Status: *def.Status.DeepCopy()}
}

// own notes that the fields that have changed are this server's. The specs are the same, and not looked at.
func (d *Definitions) own(before, now *v1.CustomResourceDefinition) error {
	if d.o.Registry.Track == nil || slices.Equal(before.Finalizers, now.Finalizers) && equality.Semantic.DeepEqual(before.Status, now.Status) {
		return nil
	}
	old, changed := withoutSpec(before), withoutSpec(now)
	err := d.o.Registry.Track.Track(d.storage.Kind().Faces[0], "status", old, changed, manager)
	now.SetManagedFields(changed.GetManagedFields())
	return err
}

// manager is the name under which definitions are changed.
const manager = "kube-apiserver"

// acceptLocked takes the names that a definition wants, unless another has taken them.
func (d *Definitions) acceptLocked(def *v1.CustomResourceDefinition) {
	wanted, has := def.Spec.Names, &def.Status.AcceptedNames
	if equality.Semantic.DeepEqual(wanted, *has) {
		return
	}
	resources, kinds := d.takenLocked(def)
	c := v1.CustomResourceDefinitionCondition{Type: v1.NamesAccepted, Status: v1.ConditionTrue, Reason: "NoConflicts", Message: "no conflicts found"}
	refuse := func(reason, message string) {
		c.Status, c.Reason, c.Message = v1.ConditionFalse, reason, message
	}
	one := func(wanted string, has *string, taken []string, reason string) {
		if wanted != *has && slices.Contains(taken, wanted) {
			refuse(reason, inUse(wanted))
			return
		}
		*has = wanted
	}
	one(wanted.Plural, &has.Plural, resources, "PluralConflict")
	one(wanted.Singular, &has.Singular, resources, "SingularConflict")
	if !reflect.DeepEqual(wanted.ShortNames, has.ShortNames) {
		if conflicts := conflictsOf(wanted.ShortNames, has.ShortNames, resources); conflicts != "" {
			refuse("ShortNamesConflict", conflicts)
		} else {
			has.ShortNames = wanted.ShortNames
		}
	}
	one(wanted.Kind, &has.Kind, kinds, "KindConflict")
	one(wanted.ListKind, &has.ListKind, kinds, "ListKindConflict")
	has.Categories = wanted.Categories
	apihelpers.SetCRDCondition(def, c)
}

func inUse(name string) string { return fmt.Sprintf("%q is already in use", name) }

// conflictsOf says which short names others have, as Kubernetes puts several errors together.
func conflictsOf(wanted, has, taken []string) string {
	var all []string
	for _, name := range wanted {
		if text := inUse(name); !slices.Contains(has, name) && slices.Contains(taken, name) && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	if len(all) > 1 {
		return "[" + strings.Join(all, ", ") + "]"
	}
	return strings.Join(all, "")
}

// takenLocked are the names of the built-in kinds and of all definitions of a group, its own included.
func (d *Definitions) takenLocked(def *v1.CustomResourceDefinition) (resources, kinds []string) {
	builtIn := d.o.Registry.Catalogue.BuiltIn(def.Spec.Group)
	resources, kinds = slices.Clone(builtIn.Resources), slices.Clone(builtIn.Kinds)
	for _, r := range d.known {
		if r.group == def.Spec.Group {
			resources = append(append(resources, r.accepted.Plural, r.accepted.Singular), r.accepted.ShortNames...)
			kinds = append(kinds, r.accepted.Kind, r.accepted.ListKind)
		}
	}
	return resources, kinds
}

// establish says whether objects may be made. It happens in the same write as the names are accepted: whoever reads
// that a definition is established can only have it from the log.
func establish(def *v1.CustomResourceDefinition) {
	c := v1.CustomResourceDefinitionCondition{Type: v1.Established, Status: v1.ConditionFalse, Reason: "NotAccepted", Message: "not all names are accepted"}
	accepted := apihelpers.IsCRDConditionTrue(def, v1.NamesAccepted)
	switch {
	case apihelpers.IsCRDConditionTrue(def, v1.Established), !accepted && apihelpers.FindCRDCondition(def, v1.Established) != nil:
		return
	case accepted:
		c.Status, c.Reason, c.Message = v1.ConditionTrue, "InitialNamesAccepted", "the initial names have been accepted"
	}
	apihelpers.SetCRDCondition(def, c)
}
