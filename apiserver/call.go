package apiserver

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/auth"
	"github.com/millrace/millrace/registry"
	"github.com/millrace/millrace/resource"
)

// call is one request for a resource.
type call struct {
	s       *Server
	w       *response
	r       *http.Request
	t       Target
	verb    string
	user    auth.User
	face    *resource.Face
	kind    *resource.Kind
	storage *registry.Storage
	format  format
	meter   Meter
	warned  int // bytes of warnings
}

func (s *Server) serveResource(w http.ResponseWriter, r *http.Request, user auth.User, t Target) {
	face, ok := s.o.Registry.Catalogue.Face(t.WithResource(t.Resource))
	if !ok {
		s.unknownResource(w, r, user, t)
		return
	}
	c := &call{s: s, r: r, t: t, user: user, face: face, kind: face.Of, w: &response{ResponseWriter: w}}
	c.verb = c.verbOf()
	labels := c.labels()
	started := s.o.Now()
	c.meter = s.o.Metrics.Meter(labels)
	c.meter.Started()
	defer func() { c.meter.Finished(c.w.code, c.w.bytes, s.o.Now().Sub(started)) }()
	defer s.recover(c.w, r)
	if err := c.serve(labels.LongRunning); err != nil {
		s.fail(c.w, c.r, err)
	}
}

// unknownResource tells a group that is not served from a resource that its group does not have.
func (s *Server) unknownResource(w http.ResponseWriter, r *http.Request, user auth.User, t Target) {
	if err := s.o.Authorize.Authorize(r.Context(), auth.Attributes{User: user, Verb: strings.ToLower(r.Method), Group: t.Group, Version: t.Version,
		Resource: t.Resource, Subresource: t.View, Namespace: t.Namespace, Name: t.Name, Path: r.URL.Path, IsResource: true}); err != nil {
		s.fail(w, r, forbiddenResource(user, strings.ToLower(r.Method), t))
		return
	}
	for _, k := range s.o.Registry.Catalogue.Kinds() {
		if slices.ContainsFunc(k.Faces, func(f *resource.Face) bool { return f.GroupVersion() == t.GroupVersion }) {
			s.fail(w, r, notFound())
			return
		}
	}
	http.NotFound(w, r)
}

func (c *call) labels() Labels {
	l := Labels{Verb: c.verbLabel(), Group: c.face.Group, Version: c.face.Version, Resource: c.face.Resource, Subresource: c.knownView(), Scope: c.scope()}
	_, connects := c.s.o.Connections[c.t.Resource+"/"+c.t.View]
	l.LongRunning = c.verb == "watch" || connects && c.t.View != ""
	if connects {
		l.Verb = "CONNECT"
	}
	switch c.verb {
	case "get", "list", "watch":
	default:
		l.DryRun = strings.Contains(c.r.URL.RawQuery, "dryRun")
	}
	return l
}

// verbLabel is what metrics call a verb: the method, for most.
func (c *call) verbLabel() string {
	switch c.verb {
	case "get":
		return "GET"
	case "list":
		return "LIST"
	case "watch":
		return "WATCH"
	case "create":
		return "POST"
	case "update":
		return "PUT"
	case "patch":
		if strings.HasPrefix(c.r.Header.Get("Content-Type"), string(types.ApplyYAMLPatchType)) {
			return "APPLY"
		}
		return "PATCH"
	case "delete":
		return "DELETE"
	case "deletecollection":
		return "DELETECOLLECTION"
	}
	return "other"
}

// knownView is the subresource, unless there is no such one.
func (c *call) knownView() string {
	view := c.t.View
	if view == "" || view == "scale" {
		return view
	}
	if _, ok := c.kind.Views[view]; ok || slices.ContainsFunc(c.kind.Actions, func(a resource.Action) bool { return a.Name == view }) {
		return view
	}
	return "other"
}

func (c *call) scope() string {
	switch {
	case c.t.Name != "":
		return "resource"
	case c.t.Namespace != "":
		return "namespace"
	}
	return "cluster"
}

// verbOf names what the request wants, as rules of authorization do.
func (c *call) verbOf() string {
	switch c.r.Method {
	case http.MethodGet, http.MethodHead:
		watching := c.t.Watch || strings.Contains(c.r.URL.RawQuery, "watch") && boolean(c.r.URL.Query(), "watch")
		switch {
		case watching && c.t.View == "" && (c.t.Name == "" || c.t.Watch):
			return "watch"
		case c.t.Name == "":
			return "list"
		}
		return "get"
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		if c.t.Name == "" {
			return "deletecollection"
		}
		return "delete"
	}
	return strings.ToLower(c.r.Method)
}

func (c *call) serve(longRunning bool) error {
	if err := c.s.o.Authorize.Authorize(c.r.Context(), auth.Attributes{
		User: c.user, Verb: c.verb, Group: c.t.Group, Version: c.t.Version, Resource: c.t.Resource, Subresource: c.t.View,
		Namespace: c.t.Namespace, Name: c.t.Name, Path: c.r.URL.Path, IsResource: true,
	}); err != nil {
		return forbiddenResource(c.user, c.verb, c.t)
	}
	if !longRunning {
		leave, err := c.s.enter(c.verb)
		if err != nil {
			return err
		}
		defer leave()
		ctx, cancel := context.WithTimeout(c.r.Context(), c.s.o.RequestTimeout)
		defer cancel()
		c.r = c.r.WithContext(ctx)
	}
	return c.dispatch()
}

func forbiddenResource(u auth.User, verb string, t Target) error {
	gr := schema.GroupResource{Group: t.Group, Resource: t.Resource}
	what := t.Resource
	if t.View != "" {
		what += "/" + t.View
	}
	where := "at the cluster scope"
	if t.Namespace != "" {
		where = fmt.Sprintf("in the namespace %q", t.Namespace)
	}
	return apierrors.NewForbidden(gr, t.Name, fmt.Errorf("User %q cannot %s resource %q in API group %q %s", u.Name, verb, what, t.Group, where))
}

// enter takes a place among the requests that are served at the same time.
func (s *Server) enter(verb string) (leave func(), err error) {
	places := s.reading
	switch verb {
	case "get", "list":
	default:
		places = s.changing
	}
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	default:
		return nil, tooMany()
	}
}

func tooMany() error {
	e := apierrors.NewTooManyRequests("too many requests, please try again later", 1)
	return e
}

func (c *call) dispatch() error {
	if c.kind.Deprecated != "" && c.kind.Offers(c.verb) {
		c.warn(c.kind.Deprecated)
	}
	name := c.t.Resource
	if c.t.View != "" {
		name += "/" + c.t.View
	}
	if connection, ok := c.s.o.Connections[name]; ok && c.t.View != "" && c.t.Name != "" {
		return connection.Connect(c.w, c.r, c.t)
	}
	var err error
	if c.format, err = accepted(c.r, c.verb == "watch"); err != nil {
		return err
	}
	if err := c.checkScope(); err != nil {
		return err
	}
	if c.unstored() {
		return c.act(c.kind.GroupResource().String(), func() (storage *registry.Storage, err error) { return nil, nil })
	}
	if c.storage, err = c.s.o.Registry.Storage(c.kind); err != nil {
		return err
	}
	if c.t.View != "" {
		return c.serveView(name)
	}
	return c.serveMain()
}

// checkScope refuses paths that name a namespace for what has none, and the other way round: who may do something in one
// namespace must not do it everywhere by asking like that.
func (c *call) checkScope() error {
	switch {
	case !c.kind.Namespaced && c.t.Namespace != "":
		return notFound()
	case c.unstored() || !c.kind.Namespaced || c.t.Namespace != "" || c.verb == "list" || c.verb == "watch":
		return nil
	case c.t.Name != "":
		return notFound()
	}
	return methodNotAllowed()
}

// unstored tells kinds that can only be posted: reviews.
func (c *call) unstored() bool { return slices.Equal(c.kind.Verbs, []string{"create"}) }

func (c *call) serveMain() error {
	if !c.kind.Offers(c.verb) {
		return methodNotAllowed()
	}
	switch c.verb {
	case "get":
		return c.get()
	case "list":
		return c.list()
	case "watch":
		return c.watch()
	case "create":
		if c.t.Name != "" {
			return methodNotAllowed()
		}
		return c.create()
	case "update":
		if c.t.Name == "" {
			return methodNotAllowed()
		}
		return c.update("")
	case "patch":
		if c.t.Name == "" {
			return methodNotAllowed()
		}
		return c.patch("")
	case "delete":
		return c.delete()
	case "deletecollection":
		return c.deleteCollection()
	}
	return methodNotAllowed()
}

func (c *call) serveView(name string) error {
	if c.t.Name == "" {
		return methodNotAllowed()
	}
	if c.t.View == "scale" && c.kind.Scale != nil {
		return c.scale()
	}
	for _, a := range c.kind.Actions {
		if a.Name == c.t.View {
			return c.act(name, func() (*registry.Storage, error) { return c.storage, nil })
		}
	}
	rules, ok := c.kind.Views[c.t.View]
	if !ok {
		return notFound()
	}
	if !slices.Contains(rules.Verbs, c.verb) {
		return methodNotAllowed()
	}
	switch c.verb {
	case "get":
		return c.get()
	case "update":
		return c.update(c.t.View)
	case "patch":
		return c.patch(c.t.View)
	}
	return methodNotAllowed()
}

// ctx carries what rules may know of the request.
func (c *call) ctx(dryRun bool) context.Context {
	return resource.WithCall(c.r.Context(), resource.Call{
		User: c.user.Name, UID: c.user.UID, Groups: c.user.Groups, Extra: c.user.Extra,
		Face: c.face.GroupVersion(), DryRun: dryRun,
	})
}

// Warnings are headers, and clients give up on headers that are too long.
const (
	longestWarning  = 1 << 10
	longestWarnings = 8 << 10
)

// warn adds a warning to the answer, unless there have been too many.
func (c *call) warn(text string) {
	if len(text) > longestWarning {
		text = strings.ToValidUTF8(text[:longestWarning], "") + " …"
	}
	if c.warned += len(text); c.warned <= longestWarnings {
		c.w.Header().Add("Warning", fmt.Sprintf("299 - %q", text))
	}
}

// manager is on whose behalf fields are tracked.
func (c *call) manager(o writeOptions) string {
	if o.manager != "" {
		return o.manager
	}
	agent, _, _ := strings.Cut(c.r.UserAgent(), "/")
	if len(agent) > longestManager {
		agent = agent[:longestManager]
	}
	if agent == "" {
		return "unknown"
	}
	return agent
}

// write is how the registry is told of a change.
func (c *call) write(o writeOptions) registry.WriteOptions {
	return registry.WriteOptions{Face: c.face, Manager: c.manager(o), DryRun: o.dryRun, Warn: c.warn}
}

// response remembers what was sent.
type response struct {
	http.ResponseWriter
	code  int
	bytes int64
}

func (w *response) WriteHeader(code int) {
	if w.code == 0 {
		w.code = code
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *response) Write(b []byte) (int, error) {
	if w.code == 0 {
		w.code = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Hijack notes that the connection speaks something else from now on.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.code = http.StatusSwitchingProtocols
	}
	return conn, buffered, err
}

// flush sends what has been written.
func (w *response) flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}
