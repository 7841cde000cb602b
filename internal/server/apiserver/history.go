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
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/store"
)

// What is asked about the changes of objects is below these paths, followed by the path of an object, or for the first
// of a collection. Who may get or list that may ask.
var askPaths = map[string]func(*call) error{
	"/history": (*call).sendHistory,
	"/why":     (*call).sendWhy,
	"/effects": (*call).sendEffects,
}

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
	// Resource is the plural of the kind, and its group.
	Resource string `json:"resource"`
	// User, Program and Verb say who made it; they are empty if that is not known.
	User    string `json:"user,omitempty"`
	Program string `json:"program,omitempty"`
	Verb    string `json:"verb,omitempty"`
	// Cause is why the program made it, as far as it says.
	Cause *Cause `json:"cause,omitempty"`
	// Object is what the change left.
	Object json.RawMessage `json:"object,omitempty"`
	// Unreadable says why there is no object, although it was not deleted.
	Unreadable string `json:"unreadable,omitempty"`
}

// findAsk reports whether the request asks for changes. Then everything before the answer is about the path of the
// objects.
func (c *call) findAsk() bool {
	n := strings.IndexByte(strings.TrimPrefix(c.Request.URL.Path, "/"), '/') + 1
	ask, rest := askPaths[c.Request.URL.Path[:n]], c.Request.URL.Path[n:]
	if ask == nil {
		return false
	}
	c.ask = ask
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
	if err := c.checkAsk(); err != nil {
		return err
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
	list := ChangeList{Kind: "ChangeList", APIVersion: changesVersion, Items: make([]Change, len(versions))}
	list.Metadata.ResourceVersion = reached.String()
	r := c.newReader()
	for i := range versions {
		list.Items[i] = r.change(&versions[i], true)
	}
	return c.sendPlain(list)
}

// changesVersion is the version of what is sent of changes.
const changesVersion = "millrace.dev/v1alpha1"

// checkAsk refuses what nothing is known about.
func (c *call) checkAsk() error {
	switch {
	case c.verb != "get" && c.verb != "list":
		return status.MethodNotAllowed()
	case c.t.View != "":
		return status.NotFound()
	}
	return nil
}

// sendPlain sends an answer that has one form only.
func (c *call) sendPlain(answer any) error {
	c.Writer.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(c.Writer).Encode(answer)
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
