package apiserver

import (
	"slices"

	"github.com/millrace/millrace/server/apiserver/internal/negotiate"
	"github.com/millrace/millrace/server/apiserver/internal/status"
	"github.com/millrace/millrace/server/auth"
	"github.com/millrace/millrace/server/registry"
)

func (c *call) dispatch() error {
	if c.Kind.Deprecated != "" && c.Kind.Offers(c.verb) {
		c.warn(c.Kind.Deprecated)
	}
	name := c.t.Resource
	if c.t.View != "" {
		name += "/" + c.t.View
	}
	if connection, ok := c.s.o.Connections[name]; ok && c.t.View != "" && c.t.Name != "" {
		return connection.Connect(c.Writer, auth.Forget(c.Request).WithContext(auth.WithUser(c.Within, c.user)), c.t)
	}
	var err error
	if c.Format, err = negotiate.Choose(c.Request, negotiate.Offer{Stream: c.verb == "watch", NoTables: c.unstored(), Watchable: c.verb == "list" || c.verb == "watch"}); err != nil {
		return err
	}
	if c.Kind.Custom && c.Format.Media == negotiate.Protobuf && c.Format.Shape == negotiate.Object && c.verb != "delete" {
		return status.Unacceptable("object *unstructured.Unstructured does not implement the protobuf marshalling interface and cannot be encoded to a protobuf message")
	}
	if err := c.checkScope(); err != nil {
		return err
	}
	if c.unstored() {
		return c.act(c.Kind.GroupResource().String(), func() (storage *registry.Storage, err error) { return nil, nil })
	}
	if c.storage, err = c.s.o.Registry.Storage(c.Kind); err != nil {
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
	case !c.Kind.Namespaced && c.t.Namespace != "":
		return status.NotFound()
	case c.t.Watch && c.verb != "watch", c.t.Watch && !c.Kind.Offers("watch"):
		return watchPath(c)
	case c.t.Watch && c.Kind.Namespaced && c.t.Namespace == "" && c.t.Name != "":
		return status.NotFound()
	case c.unstored() && (c.t.Name != "" || c.Kind.Namespaced && c.t.Namespace == ""):
		return status.NotFound()
	case c.unstored() || !c.Kind.Namespaced || c.t.Namespace != "" || c.verb == "list" || c.verb == "watch":
		return nil
	case c.t.Name != "":
		return status.NotFound()
	}
	return status.MethodNotAllowed()
}

// watchPath refuses what is not a watch on a path for watches.
func watchPath(c *call) error {
	if c.Kind.Offers("watch") {
		return status.MethodNotAllowed()
	}
	return status.NotFound()
}

// unstored tells kinds that can only be posted: reviews.
func (c *call) unstored() bool { return slices.Equal(c.Kind.Verbs, []string{"create"}) }

func (c *call) serveMain() error {
	if !c.Kind.Offers(c.verb) {
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
		if c.t.Name != "" {
			return status.MethodNotAllowed()
		}
		return c.create()
	case "update":
		if c.t.Name == "" {
			return status.MethodNotAllowed()
		}
		return c.update("")
	case "patch":
		if c.t.Name == "" {
			return status.MethodNotAllowed()
		}
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
	if c.t.View == "scale" && c.Kind.Scale != nil {
		return c.scale()
	}
	for _, a := range c.Kind.Actions {
		if a.Name == c.t.View {
			return c.act(name, func() (*registry.Storage, error) { return c.storage, nil })
		}
	}
	rules, ok := c.Kind.Views[c.t.View]
	if !ok {
		return status.NotFound()
	}
	if !slices.Contains(rules.Verbs, c.verb) {
		return status.MethodNotAllowed()
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
