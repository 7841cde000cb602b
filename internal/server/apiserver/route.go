package apiserver

import (
	"cmp"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/internal/server/apiserver/internal/negotiate"
	"github.com/millrace/millrace/internal/server/apiserver/internal/status"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/resource"
)

func (c *call) dispatch() error {
	if warning := cmp.Or(c.Face.Deprecated, c.Kind.Deprecated); warning != "" && c.Kind.Offers(c.verb) {
		c.warn(warning)
	}
	name := c.t.Resource
	if c.t.View != "" {
		name += "/" + c.t.View
	}
	if connection, ok := c.s.o.Connections[name]; ok && c.t.View != "" && c.t.Name != "" && c.ask == nil {
		return c.connect(connection)
	}
	var err error
	if c.Format, err = negotiate.Choose(c.Request, negotiate.Offer{Stream: c.verb == "watch", NoTables: c.Kind.Unstored(), Watchable: c.verb == "list" || c.verb == "watch"}); err != nil {
		return err
	}
	if c.Kind.Custom && c.verb == "deletecollection" && c.Format.Media == negotiate.Protobuf {
		c.Format.Media = negotiate.JSON // the objects' only form: those who empty namespaces ask for protobuf first
	}
	if c.Kind.Custom && c.Format.Media == negotiate.Protobuf && c.Format.Shape == negotiate.Object && c.verb != "delete" {
		return status.Unacceptable("only the following media types are accepted: " + negotiate.ObjectTypes)
	}
	if err := c.checkScope(); err != nil {
		return err
	}
	if c.Kind.Unstored() && c.ask != nil {
		return status.NotFound()
	}
	if c.Kind.Unstored() {
		return c.act(c.Kind.GroupResource().String(), resource.Subresource{Verbs: c.Kind.Verbs}, nil)
	}
	if live := c.s.o.Live[c.Kind.GroupResource().String()]; live != nil && c.t.View == "" && c.ask == nil && (c.verb == "get" || c.verb == "list") {
		return c.readLive(live)
	}
	if c.storage, err = c.s.o.Registry.Storage(c.Kind); err != nil {
		return err
	}
	if c.ask != nil {
		return c.ask(c)
	}
	if c.t.View != "" {
		return c.serveView(name)
	}
	return c.serveMain()
}

// connect calls a connection, if it supports the method.
func (c *call) connect(connection Connection) error {
	sub, ok := c.Kind.Subresource(c.t.View)
	if !ok || sub.Action == nil {
		return status.NotFound()
	}
	if !slices.Contains(sub.Action.Methods(), c.Request.Method) {
		return apierrors.NewMethodNotSupported(c.t.WithResource(c.t.Resource).GroupResource(), c.Request.Method)
	}
	return connection.Connect(c.Writer, auth.Forget(c.Request).WithContext(auth.WithUser(c.Within, c.user)), c.t)
}

// checkScope refuses a namespace for a cluster-scoped kind, and its absence where one is required. Otherwise a user
// with permissions in one namespace could use such a path to act in the whole cluster.
func (c *call) checkScope() error {
	switch {
	case !c.Kind.Namespaced && c.t.Namespace != "":
		return status.NotFound()
	case c.t.Watch && c.verb != "watch", c.t.Watch && !c.Kind.Offers("watch"):
		return watchPath(c)
	case c.Kind.Namespaced && c.t.Namespace == "" && c.t.Name != "":
		return status.NotFound()
	case c.Kind.Unstored() && c.place() != resource.Collection:
		return status.NotFound()
	}
	return nil
}

// place returns what the path names, if it has no subresource.
func (c *call) place() resource.Place {
	switch {
	case c.t.Name != "":
		return resource.OneObject
	case c.Kind.Namespaced && c.t.Namespace == "":
		return resource.AllNamespaces
	}
	return resource.Collection
}

// watchPath refuses other requests than watches on the old paths for watches.
func watchPath(c *call) error {
	if c.Kind.Offers("watch") {
		return status.MethodNotAllowed()
	}
	return status.NotFound()
}

func (c *call) serveMain() error {
	if !c.Kind.OffersAt(c.place(), c.verb) {
		return status.MethodNotAllowed()
	}
	switch c.verb {
	case "get":
		return c.get()
	case "list":
		return c.list()
	case "watch":
		return c.watch()
	case "create":
		return c.create()
	case "update":
		return c.update("")
	case "patch":
		return c.patch("")
	case "delete":
		return c.delete()
	case "deletecollection":
		return c.deleteCollection()
	}
	return status.MethodNotAllowed()
}

func (c *call) serveView(name string) error {
	if c.t.Name == "" {
		return status.MethodNotAllowed()
	}
	sub, ok := c.Kind.Subresource(c.t.View)
	switch {
	case !ok && c.Kind.Custom:
		return apierrors.NewNotFound(c.Kind.GroupResource(), c.t.Name)
	case !ok:
		return status.NotFound()
	case sub.Action != nil:
		return c.act(name, sub, c.storage)
	case !sub.Offers(c.verb):
		return status.MethodNotAllowed()
	case sub.View == nil:
		return c.scale()
	}
	switch c.verb {
	case "get":
		return c.get()
	case "update":
		return c.update(c.t.View)
	case "patch":
		return c.patch(c.t.View)
	}
	return status.MethodNotAllowed()
}
