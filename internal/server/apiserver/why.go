package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/cause"
	"github.com/millrace/millrace/internal/server/apiserver/internal/status"
	"github.com/millrace/millrace/internal/server/note"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/store"
)

// CauseChain is a change of an object, and why it was made, up to its root: the newest change first.
type CauseChain struct {
	Kind       string `json:"kind"`
	APIVersion string `json:"apiVersion"`
	Items      []Hop  `json:"items"`
	// Ends says in words why the chain does not go on. A chain that ends at somebody's own doing has no such words.
	Ends string `json:"ends,omitempty"`
}

// Hop is a change in a chain of causes.
type Hop struct {
	Change
	// Hidden says that the user may not read the object: then there is the revision and the time alone.
	Hidden bool `json:"hidden,omitempty"`
	// Previous is the object before the change.
	Previous json.RawMessage `json:"previous,omitempty"`
}

// mostHops bounds a chain, and mostObjects the bytes of the objects in it.
const (
	mostHops    = 64
	mostObjects = 16 << 20
)

// sendWhy answers with the chain of causes of the newest change of an object, or of the newest one up to the revision
// that the request names by "at".
func (c *call) sendWhy() error {
	t, err := c.newTracer()
	if err != nil {
		return err
	}
	v, err := t.newest()
	if err != nil {
		return err
	}
	chain := CauseChain{Kind: "CauseChain", APIVersion: changesVersion}
	for {
		if err := c.Within.Err(); err != nil {
			return err
		}
		before, err := t.before(v)
		if err != nil {
			return err
		}
		chain.Items = append(chain.Items, t.hop(v, before))
		if len(chain.Items) == mostHops {
			chain.Ends = fmt.Sprintf("a chain has at most %d changes", mostHops)
			break
		}
		if v, chain.Ends = t.causeOf(v); v == nil {
			break
		}
	}
	return c.sendPlain(chain)
}

// tracer follows causes.
type tracer struct {
	*changeReader
	sent int // bytes of objects
}

func (c *call) newTracer() (*tracer, error) {
	if err := c.checkAsk(); err != nil {
		return nil, err
	}
	if c.t.Name == "" {
		return nil, status.NotFound()
	}
	return &tracer{changeReader: c.newReader()}, nil
}

// newest returns the newest change of the object that the path names, up to the revision that the request names.
func (t *tracer) newest() (*registry.Version, error) {
	at, err := store.ParseRevision(t.Request.URL.Query().Get("at"))
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("at: %v", err))
	}
	q := registry.HistoryQuery{Namespace: t.t.Namespace, Name: t.t.Name, Limit: 1}
	if at > 0 {
		q.Before = at + 1
	}
	versions, err := t.storage.History(t.Within, q)
	if err != nil {
		return nil, err
	}
	if len(versions) == 0 {
		return nil, apierrors.NewNotFound(t.Kind.GroupResource(), t.t.Name)
	}
	return &versions[0], nil
}

// before returns the version of an object before a change; nil if there was none, or if it is not kept.
func (t *tracer) before(v *registry.Version) (*registry.Version, error) {
	if v.Created || v.Storage == nil || v.Revision < 2 {
		return nil, nil
	}
	namespace, name := v.Storage.NamesOf(v.Key)
	all, err := v.Storage.History(t.Within, registry.HistoryQuery{Namespace: namespace, Name: name, Before: v.Revision, Limit: 1})
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}

// hop converts a change to what the user may see of it.
func (t *tracer) hop(v, before *registry.Version) Hop {
	if v.Storage == nil || !t.may(nameOf(v)) {
		return Hop{Hidden: true, Change: Change{Revision: v.Revision.String(), Time: v.Time.UTC()}}
	}
	h := Hop{Change: t.change(v, t.sent < mostObjects)}
	if t.sent += len(h.Object); t.sent >= mostObjects {
		h.Unreadable = "the objects of this chain are too large for one answer"
		return h
	}
	if before != nil && before.Object != nil {
		h.Previous, _ = t.object(before) // what cannot be read is left out
		t.sent += len(h.Previous)
	}
	return h
}

// causeOf returns the change that has caused another, or why there is none in words.
func (t *tracer) causeOf(v *registry.Version) (*registry.Version, string) {
	by := note.Read(v.Note)
	if by.Cause == "" {
		return nil, ""
	}
	why, err := cause.Parse(by.Cause)
	switch {
	case err != nil:
		return nil, "what the program says of why it acted cannot be read"
	case len(why.Changes) == 0:
		return nil, endOf(&why)
	}
	var found []*registry.Version
	for _, change := range why.Changes {
		origin, err := t.origin(change, v.Revision)
		switch {
		case errors.Is(err, store.ErrCompacted):
			return nil, fmt.Sprintf("revision %d is older than what is kept", change.Revision)
		case err != nil:
			return nil, fmt.Sprintf("revision %d cannot be read", change.Revision)
		case origin != nil:
			found = append(found, origin)
		}
	}
	if len(found) == 0 {
		return nil, "the changes that the program names have not been made"
	}
	return t.choose(found), ""
}

// endOf says in words why work was done that no change has caused.
func endOf(why *cause.Cause) string {
	switch {
	case why.Told != "":
		return why.Told
	case why.Timer:
		return "a time had come"
	case why.Retry:
		return "it was tried again"
	case why.Resync:
		return "the loop looked at everything again"
	}
	return "the loop does not say what woke it"
}

// origin reads a change that another, at a revision, is said to be caused by. It returns nil if the log has another
// change at that revision: nothing is believed that has not happened.
func (t *tracer) origin(of cause.Change, at store.Revision) (*registry.Version, error) {
	revision := store.Revision(of.Revision)
	if revision < 1 || revision >= at {
		return nil, nil
	}
	all, err := t.s.o.Registry.Trail(t.Within, revision-1, 1)
	if err != nil || len(all) == 0 || nameOf(&all[0]) != of {
		return nil, err
	}
	all[0].Read()
	return &all[0], nil
}

// choose returns which of several changes is followed: the first that asked for something, or else the last.
func (t *tracer) choose(all []*registry.Version) *registry.Version {
	if len(all) == 1 {
		return all[0]
	}
	for _, v := range all {
		if t.asks(v) {
			return v
		}
	}
	return all[len(all)-1]
}

// asks reports whether a change has changed what an object asks for, and not only what is said of it.
func (t *tracer) asks(v *registry.Version) bool {
	if v.Created || v.Object == nil {
		return true
	}
	kind := v.Storage.Kind()
	if !kind.Generation {
		return true
	}
	before, err := t.before(v)
	if err != nil || before == nil || before.Object == nil {
		return true
	}
	now, err := kind.Decode(t.Within, v.Object.Value(), v.Revision.String())
	if err != nil {
		return true
	}
	old, err := kind.Decode(t.Within, before.Object.Value(), before.Revision.String())
	return err != nil || now.GetGeneration() != old.GetGeneration()
}
