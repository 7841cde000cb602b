package apiserver

import (
	"fmt"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/cause"
	"github.com/millrace/millrace/internal/server/note"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/store"
)

// EffectList is a change of an object, and the changes that it has set off, the oldest first.
type EffectList struct {
	Kind       string   `json:"kind"`
	APIVersion string   `json:"apiVersion"`
	Items      []Effect `json:"items"`
	// Hidden is the number of changes of objects that the user may not read.
	Hidden int `json:"hidden,omitempty"`
	// Reached is the revision up to which was looked, and More says that there may be others after it.
	Reached string `json:"reached"`
	More    bool   `json:"more,omitempty"`
}

// Effect is a change that another has caused.
type Effect struct {
	Change
	// Because is the revision of the change that has caused it; empty for the first of the list.
	Because string `json:"because,omitempty"`
}

const (
	// mostEffects is how many changes are sent.
	mostEffects = 1000
	// mostScanned is how many changes are looked at, and scannedAtOnce how many of them at a time.
	mostScanned   = 200_000
	scannedAtOnce = 1000
)

// sendEffects answers with what the newest change of an object has set off that no other has caused, or the newest one
// up to the revision that the request names by "at".
func (c *call) sendEffects() error {
	t, err := c.newTracer()
	if err != nil {
		return err
	}
	root, err := t.begun()
	if err != nil {
		return err
	}
	f := &follower{tracer: t, caused: map[cause.Change]bool{}}
	f.list.Kind, f.list.APIVersion = "EffectList", changesVersion
	f.add(root, "")
	if err := f.follow(root.Revision); err != nil {
		return err
	}
	return c.sendPlain(f.list)
}

// mostVersions is how many versions of an object are looked at for one that somebody made by himself.
const mostVersions = 200

// begun returns the newest change of the object that no loop has made because of another, or if there is none the newest
// one.
func (t *tracer) begun() (*registry.Version, error) {
	newest, err := t.newest()
	if err != nil {
		return nil, err
	}
	all, err := t.storage.History(t.Within, registry.HistoryQuery{
		Namespace: t.t.Namespace, Name: t.t.Name, Before: newest.Revision + 1, Limit: mostVersions,
	})
	if err != nil {
		return nil, err
	}
	for i := range slices.Backward(all) {
		if note.Read(all[i].Note).Cause == "" {
			return &all[i], nil
		}
	}
	return newest, nil
}

// follower finds what a change has set off.
type follower struct {
	*tracer
	list   EffectList
	caused map[cause.Change]bool // the changes that belong to the list
}

// add adds a change.
func (f *follower) add(v *registry.Version, because string) {
	of := nameOf(v)
	f.caused[of] = true
	if !f.may(of) {
		f.list.Hidden++
		return
	}
	f.list.Items = append(f.list.Items, Effect{Change: f.change(v, false), Because: because})
}

// follow looks at the changes after a revision.
func (f *follower) follow(after store.Revision) error {
	end := after + mostScanned
	for after < end && len(f.caused) < mostEffects {
		if err := f.Within.Err(); err != nil {
			return err
		}
		next, err := f.s.o.Registry.Trail(f.Within, after, scannedAtOnce)
		if err != nil {
			return apierrors.NewInternalError(fmt.Errorf("the changes after %d: %w", after, err))
		}
		if len(next) == 0 {
			f.list.Reached = after.String()
			return nil
		}
		for i := range next {
			f.look(&next[i])
		}
		after = next[len(next)-1].Revision
	}
	f.list.Reached, f.list.More = after.String(), true
	return nil
}

// look adds a change if one of the list has caused it.
func (f *follower) look(v *registry.Version) {
	by := note.Read(v.Note)
	if by.Cause == "" || len(f.caused) >= mostEffects {
		return
	}
	why, err := cause.Parse(by.Cause)
	if err != nil {
		return
	}
	for _, change := range why.Changes {
		if f.caused[change] && store.Revision(change.Revision) < v.Revision {
			f.add(v, strconv.FormatUint(change.Revision, 10))
			return
		}
	}
}
