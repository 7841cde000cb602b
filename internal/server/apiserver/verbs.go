package apiserver

import (
	"context"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/apiserver/internal/body"
	"github.com/millrace/millrace/internal/server/apiserver/internal/negotiate"
	"github.com/millrace/millrace/internal/server/apiserver/internal/query"
	"github.com/millrace/millrace/internal/server/apiserver/internal/status"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

func (c *call) get() error {
	fresh := registry.Freshness{}
	if c.Request.URL.RawQuery != "" {
		var o query.List
		if err := o.ParseVersion(c.Request.URL.Query().Get("resourceVersion")); err != nil {
			return err
		}
		fresh = o.Fresh
	}
	o, err := c.storage.Get(c.Within, c.t.Namespace, c.t.Name, fresh)
	if err != nil {
		return err
	}
	return c.SendCached(http.StatusOK, o)
}

func (c *call) list() error {
	o, err := query.ParseList(c.Request.URL.Query(), c.Face)
	if err != nil {
		return err
	}
	read := c.readList
	if c.narrow {
		read = c.listVisible
	}
	list, err := read(o)
	if err != nil {
		return err
	}
	if c.Format.Shape == negotiate.Partial {
		return c.CheckShape()
	}
	return c.SendList(list)
}

func (c *call) readList(o query.List) (*registry.List, error) {
	return c.storage.List(c.Within, c.query(o))
}

func (c *call) query(o query.List) registry.ListQuery {
	q := registry.ListQuery{
		Selection: registry.Select(c.Face, c.t.Namespace, c.t.Name, o.Labels, o.Fields),
		Freshness: o.Fresh, Limit: o.Limit, Continue: o.Continue,
	}
	if o.Fresh.Any {
		q.Limit = 0
	}
	return q
}

func (c *call) create() error {
	o, err := query.ParseWrite(c.Request.URL.Query(), "CreateOptions")
	if err != nil {
		return err
	}
	b, err := c.s.bodies.Read(c.Writer, c.Request)
	if err != nil {
		return err
	}
	obj, err := c.decodeObject(b, o)
	if err != nil {
		return err
	}
	stored, err := c.storage.Create(c.ctx(o.DryRun), c.t.Namespace, obj, c.write(o))
	if err != nil {
		return err
	}
	return c.SendStored(http.StatusCreated, stored)
}

// decodeObject decodes a body as an object in the request's version, and sets defaults.
func (c *call) decodeObject(b body.Body, o query.Write) (resource.Object, error) {
	into := c.Face.New()
	strict, err := b.DecodeInto(into, c.Face.GroupVersionKind)
	if err != nil {
		return nil, err
	}
	if strict, err = body.Clean(c.Kind, into, strict); err != nil {
		return nil, body.Unfit(c.Kind, err)
	}
	if err := body.Report(strict, o.Validation, c.Face.GroupVersionKind, c.warn); err != nil {
		return nil, err
	}
	obj := c.toKind(into)
	c.oneOfEachOwner(obj, "", true)
	c.received(obj, into)
	return obj, nil
}

// toKind converts an object from the request's version to the kind's own, and sets defaults.
func (c *call) toKind(o runtime.Object) resource.Object {
	var obj resource.Object
	if c.Face.To != nil {
		obj = c.Face.To(o)
		obj.GetObjectKind().SetGroupVersionKind(c.Kind.GroupVersionKind())
	} else {
		obj = o.(resource.Object)
	}
	c.Kind.Default(obj)
	return obj
}

func (c *call) update(view string) error {
	o, err := query.ParseWrite(c.Request.URL.Query(), "UpdateOptions")
	if err != nil {
		return err
	}
	b, err := c.s.bodies.Read(c.Writer, c.Request)
	if err != nil {
		return err
	}
	obj, err := c.decodeObject(b, o)
	if err != nil {
		return err
	}
	if err := c.checkNames(obj); err != nil {
		return err
	}
	updater := func(context.Context, resource.Object) (given resource.Object, err error) {
		// The registry may modify the object, so a retry decodes the body again. Warnings and errors were reported the
		// first time.
		if given, obj = obj, nil; given == nil {
			if given, err = c.decodeObject(b, query.Write{Validation: metav1.FieldValidationIgnore}); err == nil {
				err = c.checkNames(given)
			}
		}
		return given, err
	}
	stored, created, err := c.storage.Update(c.ctx(o.DryRun), c.t.Namespace, c.t.Name, updater, registry.UpdateOptions{
		WriteOptions: c.write(o), View: view, UID: obj.GetUID(), MayCreate: c.Kind.CreateOnUpdate && view == "",
	})
	if err != nil {
		return err
	}
	return c.SendStored(codeFor(created), stored)
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
	case !c.Kind.Namespaced:
		return nil
	}
	return registry.AdoptNamespace(o, c.t.Namespace)
}

func (c *call) delete() error {
	o, write, err := c.deleteOptions()
	if err != nil {
		return err
	}
	if query.IgnoresReadErrors(o) {
		if err := c.mayIgnoreReadErrors(); err != nil {
			return err
		}
	}
	deleted, err := c.storage.Delete(c.ctx(write.DryRun), c.t.Namespace, c.t.Name, *o, c.write(write))
	if err != nil {
		return err
	}
	code := http.StatusOK
	if !deleted.Gone && o.OrphanDependents != nil && !*o.OrphanDependents { //nolint:staticcheck // the old option is still part of the API
		code = http.StatusAccepted
	}
	switch {
	case !deleted.Gone:
		return c.SendStored(code, &deleted.Stored)
	case c.Kind.ReturnDeleted && deleted.Object != nil: // including the changes of the delete itself, which were not stored
		return c.SendObject(code, deleted.Object)
	}
	details := &metav1.StatusDetails{Name: c.t.Name, Group: c.t.Group, Kind: c.t.Resource}
	if deleted.Object != nil {
		details.UID = deleted.Object.GetUID()
	}
	return c.Send(code, &metav1.Status{Status: metav1.StatusSuccess, Details: details}, schema.GroupVersionKind{Version: "v1", Kind: "Status"})
}

// ignoreReadErrors is the verb that permits deleting an object that cannot be read.
const ignoreReadErrors = "unsafe-delete-ignore-read-errors"

// mayIgnoreReadErrors checks whether the user may delete an object that cannot be read, because admission cannot check
// it.
func (c *call) mayIgnoreReadErrors() error {
	at := c.attributes()
	at.Verb = ignoreReadErrors
	v := c.s.o.Authorize.Authorize(c.Within, at)
	if v.Allowed() {
		return nil
	}
	return apierrors.NewForbidden(c.Kind.GroupResource(), c.t.Name, fmt.Errorf("not permitted to do %q, reason: %s", ignoreReadErrors, v.Why()))
}

func (c *call) deleteCollection() error {
	o, write, err := c.deleteOptions()
	if err != nil {
		return err
	}
	if err := query.CheckDeleteCollection(o); err != nil {
		return err
	}
	lo, err := query.ParseList(c.Request.URL.Query(), c.Face)
	if err != nil {
		return err
	}
	list, err := c.storage.DeleteCollection(c.ctx(write.DryRun), c.query(lo), *o, c.write(write))
	if err != nil {
		return err
	}
	return c.SendList(list)
}

// deleteOptions reads the options of a delete from the query or the body.
func (c *call) deleteOptions() (*metav1.DeleteOptions, query.Write, error) {
	o := &metav1.DeleteOptions{}
	b, err := c.s.bodies.Read(c.Writer, c.Request)
	if err != nil {
		return nil, query.Write{}, err
	}
	if len(b.Bytes) > 0 {
		err = b.DecodeOptions(o, "DeleteOptions")
		c.record.Request(o)
	} else {
		err = query.FillDelete(c.Request.URL.Query(), o)
	}
	if err != nil {
		return nil, query.Write{}, err
	}
	return o, query.Write{DryRun: len(o.DryRun) > 0}, query.CheckDelete(o)
}

func (c *call) scale() error {
	if c.verb != "get" {
		return c.setScale(resource.ScaleKind)
	}
	o, err := c.storage.Get(c.Within, c.t.Namespace, c.t.Name, registry.Freshness{})
	if err != nil {
		return err
	}
	obj, err := c.Kind.Decode(c.Within, o.Value(), o.Revision.String())
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if c.Kind.Scale.Missing != nil {
		if err := c.Kind.Scale.Missing(obj); err != nil {
			return apierrors.NewInternalError(err)
		}
	}
	return c.Send(http.StatusOK, c.Kind.Scale.Get(obj), resource.ScaleKind)
}

// act serves an action: a subresource of a stored object, or a kind that is not stored.
func (c *call) act(name string, sub resource.Subresource, storage *registry.Storage) error {
	action, ok := c.s.o.Actions[name]
	if !ok {
		return status.NotFound()
	}
	if !sub.Offers(c.verb) {
		return status.MethodNotAllowed()
	}
	o, err := query.ParseWrite(c.Request.URL.Query(), "CreateOptions")
	if err != nil {
		return err
	}
	gvk, model := c.Face.GroupVersionKind, c.Face.New
	if sub.Action != nil {
		gvk, model = sub.Action.Body, sub.Action.New
	}
	in, err := c.s.bodies.Read(c.Writer, c.Request)
	if err != nil {
		return err
	}
	into := model()
	strict, err := in.DecodeInto(into, gvk)
	if err != nil {
		return err
	}
	if err := body.Report(strict, o.Validation, gvk, c.warn); err != nil {
		return err
	}
	c.record.Request(into)
	if o, ok := into.(metav1.Object); ok {
		if err := registry.AdoptNamespace(o, c.t.Namespace); err != nil {
			return err
		}
	}
	if action, ok := action.(Completer); ok {
		action.Complete(into, c.t.Name)
	}
	change := &registry.Change{
		Operation: registry.Create, Kind: c.Kind, View: c.t.View, Namespace: c.t.Namespace, Name: c.t.Name,
		Body: into, BodyKind: gvk, WriteOptions: c.write(o),
	}
	within := c.ctx(o.DryRun)
	if err := c.s.o.Registry.Admit(within, change); err != nil {
		return err
	}
	answer, code, err := action.Act(within, &ActionCall{
		Registry: c.s.o.Registry, Storage: storage, Namespace: c.t.Namespace, Name: c.t.Name, Body: change.Body, Options: change.WriteOptions, User: c.user,
	})
	if err != nil {
		return err
	}
	if _, isStatus := answer.(*metav1.Status); isStatus {
		gvk = schema.GroupVersionKind{Version: "v1", Kind: "Status"}
	}
	return c.Send(code, answer, gvk)
}
