package apiserver

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/internal/server/apiserver/internal/status"
	"github.com/millrace/millrace/internal/server/cause"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/store"
)

// The changes of an object are below /history/, followed by the path of the object or of a collection. Who may get or
// list that may read its changes.
const historyPath = "/history"

// ChangeList are changes of objects, the oldest first.
type ChangeList struct {
	Kind       string `json:"kind"`
	APIVersion string `json:"apiVersion"`
	Metadata   struct {
		// ResourceVersion is the revision up to which the changes are known.
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Items []Change `json:"items"`
}

// Change is one change of one object.
type Change struct {
	Revision  string    `json:"revision"`
	Time      time.Time `json:"time"`
	Type      string    `json:"type"` // ADDED, MODIFIED or DELETED
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	// User, Program and Verb say who made it; they are empty if that is not known.
	User    string `json:"user,omitempty"`
	Program string `json:"program,omitempty"`
	Verb    string `json:"verb,omitempty"`
	// Object is what the change left.
	Object json.RawMessage `json:"object,omitempty"`
	// Unreadable says why there is no object, although it was not deleted.
	Unreadable string `json:"unreadable,omitempty"`
}

// findHistory reports whether the request asks for changes. Then everything before the answer is about the path of the
// objects.
func (c *call) findHistory() bool {
	rest, ok := strings.CutPrefix(c.Request.URL.Path, historyPath)
	if !ok || !strings.HasPrefix(rest, "/") {
		return false
	}
	c.history = true
	r := *c.Request
	r.URL = &url.URL{Path: rest, RawQuery: r.URL.RawQuery}
	c.Request = &r
	if c.t, c.isResource = parseTarget(rest); c.isResource {
		c.verb = c.verbOf()
		c.find()
	} else {
		c.verb = strings.ToLower(r.Method)
	}
	return true
}

// newestChanges is how many changes are sent unless the request says otherwise, and mostChanges how many at most.
const (
	newestChanges = 100
	mostChanges   = 1000
)

// sendHistory answers with the changes of the objects that the path names.
func (c *call) sendHistory() error {
	switch {
	case c.verb != "get" && c.verb != "list":
		return status.MethodNotAllowed()
	case c.t.View != "":
		return status.NotFound()
	}
	q, err := c.historyQuery()
	if err != nil {
		return err
	}
	reached := c.s.o.Registry.Cache.Revision()
	versions, err := c.storage.History(c.Within, q)
	if err != nil {
		return err
	}
	list := ChangeList{Kind: "ChangeList", APIVersion: "millrace.dev/v1alpha1", Items: make([]Change, len(versions))}
	list.Metadata.ResourceVersion = reached.String()
	for i := range versions {
		if list.Items[i], err = c.change(&versions[i]); err != nil {
			return err
		}
	}
	c.Writer.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(c.Writer).Encode(list)
}

func (c *call) historyQuery() (q registry.HistoryQuery, err error) {
	from := c.Request.URL.Query()
	if from.Has("fieldSelector") || from.Has("labelSelector") {
		return q, apierrors.NewBadRequest("the changes of objects cannot be selected by fields or labels")
	}
	q = registry.HistoryQuery{Namespace: c.t.Namespace, Name: c.t.Name, Limit: newestChanges}
	for name, into := range map[string]*store.Revision{"after": &q.After, "before": &q.Before} {
		if *into, err = store.ParseRevision(from.Get(name)); err != nil {
			return q, apierrors.NewBadRequest(fmt.Sprintf("%s: %v", name, err))
		}
	}
	if text := from.Get("limit"); text != "" {
		if q.Limit, err = strconv.Atoi(text); err != nil || q.Limit < 1 || q.Limit > mostChanges {
			return q, apierrors.NewBadRequest(fmt.Sprintf("limit: %q is not a number from 1 to %d", text, mostChanges))
		}
	}
	return q, nil
}

// change converts a change to what is sent of it.
func (c *call) change(v *registry.Version) (Change, error) {
	by := cause.Read(v.Note)
	out := Change{Revision: v.Revision.String(), Time: v.Time.UTC(), Type: "MODIFIED", User: by.User, Program: by.Program, Verb: by.Verb}
	out.Namespace, out.Name = c.storage.NamesOf(v.Key)
	switch {
	case v.Type == store.Delete:
		out.Type = "DELETED"
	case v.Created:
		out.Type = "ADDED"
	}
	switch {
	case v.Forgotten:
		out.Unreadable = "it was forgotten on purpose"
	case v.Unreadable != nil:
		out.Unreadable = v.Unreadable.Error()
	}
	if v.Object == nil {
		return out, nil
	}
	o, err := c.ObjectOf(v.Object)
	if err != nil {
		out.Unreadable = err.Error()
		return out, nil
	}
	out.Object, err = json.Marshal(o)
	return out, err
}
