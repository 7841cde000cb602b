package apiserver

import (
	"encoding/json"
	"errors"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/cause"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/note"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/store"
)

// answerAsk answers a question about changes.
type answerAsk func(*call) error

// Cause is why a program has made a change, as it says: see package cause.
type Cause struct {
	Loop string `json:"loop,omitempty"`
	Key  string `json:"key,omitempty"`
	// Changes are those that the program has seen before it acted: all of them, or the first and the last of Count.
	Changes  []Origin `json:"changes,omitempty"`
	Count    int      `json:"count,omitempty"`
	Told     string   `json:"told,omitempty"`
	Timer    bool     `json:"timer,omitempty"`
	Retry    bool     `json:"retry,omitempty"`
	Resync   bool     `json:"resync,omitempty"`
	Decision string   `json:"decision,omitempty"`
}

// Origin is a change that has caused another. Of what the user may not read there is the revision alone.
type Origin struct {
	Revision  string `json:"revision"`
	Resource  string `json:"resource,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// changeReader converts changes for the user of a request.
type changeReader struct {
	*call
	allowed map[cause.Change]bool // without revisions
}

func (c *call) newReader() *changeReader {
	return &changeReader{call: c, allowed: map[cause.Change]bool{}}
}

// may reports whether the user may read an object now.
func (r *changeReader) may(of cause.Change) bool {
	of.Revision = 0
	if known, ok := r.allowed[of]; ok {
		return known
	}
	gr := schema.ParseGroupResource(of.Resource)
	at := auth.Attributes{User: r.user, Verb: "get", IsResource: true, Group: gr.Group, Resource: gr.Resource, Namespace: of.Namespace, Name: of.Name}
	if kind, ok := r.s.o.Registry.Catalogue.Kind(gr); ok {
		at.Version = kind.Version
	}
	if gr.Resource == "namespaces" && gr.Group == "" {
		at.Namespace = of.Name
	}
	r.allowed[of] = r.s.o.Authorize.Authorize(r.Within, at).Allowed()
	return r.allowed[of]
}

// nameOf names the object of a change.
func nameOf(v *registry.Version) (of cause.Change) {
	of.Revision = uint64(v.Revision)
	if v.Storage != nil {
		of.Resource = v.Storage.Kind().GroupResource().String()
		of.Namespace, of.Name = v.Storage.NamesOf(v.Key)
	}
	return of
}

// change converts a change to what is sent of it.
func (r *changeReader) change(v *registry.Version, withObject bool) Change {
	by, of := note.Read(v.Note), nameOf(v)
	out := Change{
		Revision: v.Revision.String(), Time: v.Time.UTC(), Type: "MODIFIED", Resource: of.Resource, Namespace: of.Namespace, Name: of.Name,
		User: by.User, Program: by.Program, Verb: by.Verb,
	}
	if why, err := cause.Parse(by.Cause); err == nil {
		out.Cause = r.cause(&why)
	}
	switch {
	case v.Type == store.Delete:
		out.Type = "DELETED"
	case v.Created:
		out.Type = "ADDED"
	}
	if !withObject {
		return out
	}
	var err error
	switch {
	case v.Forgotten:
		out.Unreadable = "it was forgotten on purpose"
	case v.Unreadable != nil:
		out.Unreadable = v.Unreadable.Error()
	case v.Object != nil:
		if out.Object, err = r.object(v); err != nil {
			out.Unreadable = err.Error()
		}
	}
	return out
}

// object returns what the change left, as the request asks for it, or for another kind in its preferred version.
func (r *changeReader) object(v *registry.Version) (json.RawMessage, error) {
	a := r.Answer
	if kind := v.Storage.Kind(); kind.Identity != a.Kind.Identity {
		faces := kind.Served()
		if len(faces) == 0 {
			return nil, errors.New("its kind is not served in any version")
		}
		a.Kind, a.Face = kind, faces[0]
	}
	o, err := a.ObjectOf(v.Object)
	if err != nil {
		return nil, err
	}
	return json.Marshal(o)
}

// cause converts what is said of why a change was made.
func (r *changeReader) cause(why *cause.Cause) *Cause {
	out := &Cause{
		Loop: why.Loop, Key: why.Key, Count: why.Count, Told: why.Told,
		Timer: why.Timer, Retry: why.Retry, Resync: why.Resync, Decision: why.Decision,
	}
	for _, change := range why.Changes {
		o := Origin{Revision: strconv.FormatUint(change.Revision, 10)}
		if r.may(change) {
			o.Resource, o.Namespace, o.Name = change.Resource, change.Namespace, change.Name
		}
		out.Changes = append(out.Changes, o)
	}
	return out
}
