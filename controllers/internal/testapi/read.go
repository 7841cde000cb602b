package testapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var namespaces = schema.GroupResource{Resource: "namespaces"}

// shown is the object in the form that the client asked for.
func shown(c *call, o *object) map[string]any {
	if !c.metaOnly {
		return o.Object
	}
	return map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": o.Object["metadata"]}
}

func (s *Server) getLocked(c *call) (any, error) {
	if o := s.objects[c.key]; o != nil {
		return shown(c, o), nil
	}
	return nil, apierrors.NewNotFound(c.key.resource, c.key.name)
}

func (s *Server) listLocked(c *call) (any, error) {
	match, err := selection(c)
	if err != nil {
		return nil, err
	}
	items := []any{}
	for _, o := range s.selectLocked(c.key.resource, match) {
		items = append(items, shown(c, o))
	}
	list := map[string]any{
		"apiVersion": c.kind.GroupVersion().String(), "kind": c.kind.Kind + "List",
		"metadata": map[string]any{"resourceVersion": strconv.FormatUint(s.version, 10)}, "items": items,
	}
	if c.metaOnly {
		list["apiVersion"], list["kind"] = "meta.k8s.io/v1", "PartialObjectMetadataList"
	}
	return list, nil
}

// selection understands the namespace, labels, and the fields that loops select on.
func selection(c *call) (func(*object) bool, error) {
	query := c.request.URL.Query()
	byLabel, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	byField, err := fields.ParseSelector(query.Get("fieldSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return func(o *object) bool {
		node, _, _ := unstructured.NestedString(o.Object, "spec", "nodeName")
		return (c.key.namespace == "" || o.GetNamespace() == c.key.namespace) &&
			(c.key.name == "" || o.GetName() == c.key.name) &&
			byLabel.Matches(labels.Set(o.GetLabels())) &&
			byField.Matches(fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace(), "spec.nodeName": node})
	}, nil
}

func (s *Server) watch(c *call) *http.Response {
	match, err := selection(c)
	if err != nil {
		return refuse(c.request, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &watcher{server: s, call: c, ctx: c.request.Context(), match: match, generation: s.watches, done: make(chan struct{})}
	query := c.request.URL.Query()
	from := query.Get("resourceVersion")
	switch {
	case query.Get("sendInitialEvents") == "true", from == "", from == "0":
		for _, o := range s.selectLocked(c.key.resource, match) {
			w.write("ADDED", shown(c, o))
		}
		w.seen = s.version
		if query.Get("sendInitialEvents") == "true" {
			w.write("BOOKMARK", w.bookmark())
		}
	default:
		if w.seen, err = strconv.ParseUint(from, 10, 64); err != nil {
			return refuse(c.request, apierrors.NewBadRequest(err.Error()))
		}
		if w.seen < s.oldest {
			return refuse(c.request, apierrors.NewResourceExpired("too old resource version"))
		}
	}
	return stream(c.request, http.StatusOK, w)
}

// A watcher is a cursor into the log, read as a stream of JSON.
type watcher struct {
	server     *Server
	call       *call
	ctx        context.Context // of the request
	match      func(*object) bool
	generation int
	seen       uint64
	pending    bytes.Buffer
	done       chan struct{}
}

func (w *watcher) Read(p []byte) (int, error) {
	for {
		if w.pending.Len() > 0 {
			return w.pending.Read(p)
		}
		moved, ended := w.advance()
		if ended {
			return 0, io.EOF
		}
		if w.pending.Len() > 0 {
			continue
		}
		select {
		case <-moved:
		case <-w.done:
			return 0, io.EOF
		case <-w.ctx.Done():
			return 0, w.ctx.Err()
		}
	}
}

func (w *watcher) Close() error {
	select {
	case <-w.done:
	default:
		close(w.done)
	}
	return nil
}

// advance writes what has happened since.
func (w *watcher) advance() (moved <-chan struct{}, ended bool) {
	s := w.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.generation != s.watches {
		return nil, true
	}
	if s.held {
		return s.moved, false
	}
	first := len(s.log) - int(s.version-w.seen)
	for _, change := range s.log[max(0, first):] {
		if change.key.resource == w.call.key.resource && change.at > w.seen {
			w.tell(change)
		}
	}
	w.seen = s.version
	return s.moved, false
}

func (w *watcher) tell(c change) {
	before := c.before != nil && w.match(c.before)
	after := !c.gone && w.match(c.object)
	switch {
	case before && after:
		w.write("MODIFIED", shown(w.call, c.object))
	case after:
		w.write("ADDED", shown(w.call, c.object))
	case before:
		last := c.before.DeepCopy()
		last.SetResourceVersion(c.object.GetResourceVersion())
		w.write("DELETED", shown(w.call, last))
	}
}

func (w *watcher) write(kind string, object map[string]any) {
	if err := json.NewEncoder(&w.pending).Encode(map[string]any{"type": kind, "object": object}); err != nil {
		panic(err)
	}
}

func (w *watcher) bookmark() map[string]any {
	o := &object{Object: map[string]any{}}
	o.SetAPIVersion(w.call.kind.GroupVersion().String())
	o.SetKind(w.call.kind.Kind)
	o.SetResourceVersion(strconv.FormatUint(w.seen, 10))
	o.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	return shown(w.call, o)
}
