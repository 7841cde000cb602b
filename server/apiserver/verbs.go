package apiserver

import (
	"context"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/server/registry"
	"github.com/millrace/millrace/server/resource"
)

func (c *call) get() error {
	fresh := registry.Freshness{}
	if c.r.URL.RawQuery != "" {
		var o listOptions
		if err := o.parseVersion(c.r.URL.Query().Get("resourceVersion")); err != nil {
			return err
		}
		fresh = o.fresh
	}
	o, err := c.storage.Get(c.within, c.t.Namespace, c.t.Name, fresh)
	if err != nil {
		return err
	}
	return c.sendCached(http.StatusOK, o)
}

func (c *call) list() error {
	o, err := parseListOptions(c.r.URL.Query(), c.face)
	if err != nil {
		return err
	}
	list, err := c.storage.List(c.within, c.query(o))
	if err != nil {
		return err
	}
	if c.format.shape == shapePartial {
		return c.unlike()
	}
	return c.sendList(list)
}

func (c *call) query(o listOptions) registry.ListQuery {
	q := registry.ListQuery{
		Selection: registry.Select(c.face, c.t.Namespace, c.t.Name, o.labels, o.fields),
		Freshness: o.fresh, Limit: o.limit, Continue: o.next,
	}
	if o.fresh.Any {
		q.Limit = 0
	}
	return q
}

func (c *call) create() error {
	o, err := parseWriteOptions(c.r.URL.Query(), "CreateOptions")
	if err != nil {
		return err
	}
	b, err := c.s.readBody(c.w, c.r)
	if err != nil {
		return err
	}
	obj, err := c.understand(b, o)
	if err != nil {
		return err
	}
	stored, err := c.storage.Create(c.ctx(o.dryRun), c.t.Namespace, obj, c.write(o))
	if err != nil {
		return err
	}
	return c.sendStored(http.StatusCreated, stored)
}

// understand makes an object of the kind of a body in the caller's version, with defaults filled in.
func (c *call) understand(b body, o writeOptions) (resource.Object, error) {
	into := c.face.New()
	strict, err := b.decodeInto(into, c.face.GroupVersionKind)
	if err != nil {
		return nil, err
	}
	if err := applyValidation(strict, o, c.face.GroupVersionKind, c.warn); err != nil {
		return nil, err
	}
	obj := c.hub(into)
	c.oneOfEachOwner(obj, "", true)
	return obj, nil
}

// hub turns what the caller speaks of into the kind itself, and fills in defaults.
func (c *call) hub(o runtime.Object) resource.Object {
	var obj resource.Object
	if c.face.To != nil {
		obj = c.face.To(o)
		obj.GetObjectKind().SetGroupVersionKind(c.kind.GroupVersionKind())
	} else {
		obj = o.(resource.Object)
	}
	c.kind.Default(obj)
	return obj
}

func (c *call) update(view string) error {
	o, err := parseWriteOptions(c.r.URL.Query(), "UpdateOptions")
	if err != nil {
		return err
	}
	b, err := c.s.readBody(c.w, c.r)
	if err != nil {
		return err
	}
	obj, err := c.understand(b, o)
	if err != nil {
		return err
	}
	if err := c.checkNames(obj); err != nil {
		return err
	}
	updater := func(context.Context, resource.Object) (given resource.Object, err error) {
		// The registry may change what it is given; a second try needs the body as it came. All has been said about it.
		if given, obj = obj, nil; given == nil {
			if given, err = c.understand(b, writeOptions{validation: metav1.FieldValidationIgnore}); err == nil {
				err = c.checkNames(given)
			}
		}
		return given, err
	}
	stored, created, err := c.storage.Update(c.ctx(o.dryRun), c.t.Namespace, c.t.Name, updater, registry.UpdateOptions{
		WriteOptions: c.write(o), View: view, UID: obj.GetUID(), MayCreate: c.kind.CreateOnUpdate && view == "",
	})
	if err != nil {
		return err
	}
	return c.sendStored(codeFor(created), stored)
}

func codeFor(created bool) int {
	if created {
		return http.StatusCreated
	}
	return http.StatusOK
}

// checkNames compares the object's name and namespace with those of the path.
func (c *call) checkNames(o resource.Object) error {
	switch {
	case o.GetName() == "":
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s based on URL) was undeterminable: name must be provided", c.t.Name))
	case o.GetName() != c.t.Name:
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", o.GetName(), c.t.Name))
	case !c.kind.Namespaced:
		return nil
	case o.GetNamespace() == "":
		o.SetNamespace(c.t.Namespace)
	case o.GetNamespace() != c.t.Namespace:
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}

func (c *call) delete() error {
	o, write, err := c.deleteOptions()
	if err != nil {
		return err
	}
	deleted, err := c.storage.Delete(c.ctx(write.dryRun), c.t.Namespace, c.t.Name, *o, c.write(write))
	if err != nil {
		return err
	}
	code := http.StatusOK
	if !deleted.Gone && o.OrphanDependents != nil && !*o.OrphanDependents { //nolint:staticcheck // the old option is still part of the API
		code = http.StatusAccepted
	}
	switch {
	case !deleted.Gone:
		return c.sendStored(code, &deleted.Stored)
	case c.kind.ReturnDeleted: // with what the delete itself changed, which was not stored
		return c.sendObject(code, deleted.Object)
	}
	return c.send(code, &metav1.Status{
		Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{
			Name: c.t.Name, Group: c.t.Group, Kind: c.t.Resource, UID: deleted.Object.GetUID(),
		},
	}, schema.GroupVersionKind{Version: "v1", Kind: "Status"})
}

func (c *call) deleteCollection() error {
	o, write, err := c.deleteOptions()
	if err != nil {
		return err
	}
	lo, err := parseListOptions(c.r.URL.Query(), c.face)
	if err != nil {
		return err
	}
	list, err := c.storage.DeleteCollection(c.ctx(write.dryRun), c.query(lo), *o, c.write(write))
	if err != nil {
		return err
	}
	return c.sendList(list)
}

// deleteOptions come in the query, or in a body.
func (c *call) deleteOptions() (*metav1.DeleteOptions, writeOptions, error) {
	o := &metav1.DeleteOptions{}
	b, err := c.s.readBody(c.w, c.r)
	if err != nil {
		return nil, writeOptions{}, err
	}
	if len(b.bytes) > 0 {
		err = b.decodeOptions(o, "DeleteOptions")
	} else {
		err = deleteOptionsFrom(c.r.URL.Query(), o)
	}
	if err != nil {
		return nil, writeOptions{}, err
	}
	return o, writeOptions{dryRun: len(o.DryRun) > 0}, checkDeleteOptions(o)
}

func (c *call) scale() error {
	gvk := schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}
	switch c.verb {
	case "get":
		o, err := c.storage.Get(c.within, c.t.Namespace, c.t.Name, registry.Freshness{})
		if err != nil {
			return err
		}
		obj, err := c.kind.Decode(c.within, o.Value(), o.Revision.String())
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		return c.send(http.StatusOK, c.kind.Scale.Get(obj), gvk)
	case "update", "patch":
		return c.setScale(gvk)
	}
	return methodNotAllowed()
}

func (c *call) act(name string, storage func() (*registry.Storage, error)) error {
	action, ok := c.s.o.Actions[name]
	if !ok {
		return notFound()
	}
	if c.verb != "create" {
		return methodNotAllowed()
	}
	o, err := parseWriteOptions(c.r.URL.Query(), "CreateOptions")
	if err != nil {
		return err
	}
	gvk, body := c.face.GroupVersionKind, c.face.New
	for _, a := range c.kind.Actions {
		if a.Name == c.t.View {
			gvk, body = a.Body, a.New
		}
	}
	in, err := c.s.readBody(c.w, c.r)
	if err != nil {
		return err
	}
	into := body()
	strict, err := in.decodeInto(into, gvk)
	if err != nil {
		return err
	}
	if err := applyValidation(strict, o, gvk, c.warn); err != nil {
		return err
	}
	st, err := storage()
	if err != nil {
		return err
	}
	answer, code, err := action.Act(c.ctx(o.dryRun), &ActionCall{
		Registry: c.s.o.Registry, Storage: st, Namespace: c.t.Namespace, Name: c.t.Name, Body: into, Options: c.write(o), User: c.user,
	})
	if err != nil {
		return err
	}
	if _, isStatus := answer.(*metav1.Status); isStatus {
		gvk = schema.GroupVersionKind{Version: "v1", Kind: "Status"}
	}
	return c.send(code, answer, gvk)
}
