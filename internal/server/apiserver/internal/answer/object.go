package answer

import (
	"encoding/json"
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/protobuf"
	"github.com/millrace/millrace/internal/server/apiserver/internal/negotiate"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/watchcache"
	"github.com/millrace/millrace/internal/server/wire"
)

// Native reports whether the request uses the stored version, so that the cache's forms can be sent.
func (a *Answer) Native() bool { return a.Face.From == nil }

// SendCached answers with one object.
func (a *Answer) SendCached(code int, o *watchcache.Object) error {
	if a.Native() && a.Format.Shape == negotiate.Object {
		switch {
		case a.Format.Plain():
			form, err := wire.JSON(a.Within, a.Kind, o)
			if err != nil {
				return internal(err)
			}
			return a.sendJSON(code, a.Face.GroupVersionKind, form)
		case a.Format.Media == negotiate.Protobuf && a.StoredProto():
			form, err := wire.Proto(a.Within, a.Kind, o)
			if err != nil {
				return apierrors.NewInternalError(err)
			}
			return a.sendProto(code, form)
		}
	}
	if a.Format.Shape == negotiate.Partial && a.Format.Media == negotiate.JSON && !a.Format.Pretty {
		form, err := wire.MetadataJSON(o)
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		return a.sendJSON(code, PartialGVK, form)
	}
	obj, err := a.decode(o)
	if err != nil {
		return err
	}
	return a.SendObject(code, obj)
}

func (a *Answer) StoredProto() bool { return a.Kind.Stored == resource.StoredProtobuf }

func (a *Answer) decode(o *watchcache.Object) (resource.Object, error) {
	obj, err := a.Kind.Decode(a.Within, o.Value(), o.Revision.String())
	if err != nil {
		return nil, internal(err)
	}
	return obj, nil
}

// ObjectOf returns an object in the request's version.
func (a *Answer) ObjectOf(o *watchcache.Object) (runtime.Object, error) {
	obj, err := a.decode(o)
	if err != nil {
		return nil, err
	}
	face := a.faceOf(obj)
	face.GetObjectKind().SetGroupVersionKind(a.Face.GroupVersionKind)
	return face, nil
}

// internal wraps an error that no client has caused. An API error is returned unchanged: a conversion may fail with
// one.
func internal(err error) error {
	var known apierrors.APIStatus
	if errors.As(err, &known) {
		return err
	}
	return apierrors.NewInternalError(err)
}

// sendJSON sends a JSON form with its kind and apiVersion.
func (a *Answer) sendJSON(code int, gvk schema.GroupVersionKind, form []byte) error {
	b := GetBuffer()
	defer b.Free()
	b.Bytes = wire.AppendTypeMeta(b.Bytes, gvk.Kind, gvk.GroupVersion().String())
	b.Bytes = append(b.Bytes, form...)
	b.Bytes = append(b.Bytes, '\n')
	WriteBytes(a.Writer, resource.JSONType, code, b.Bytes)
	return nil
}

func (a *Answer) sendProto(code int, form wire.Message) error {
	b := GetBuffer()
	defer b.Free()
	b.Bytes = protobuf.AppendEnvelope(b.Bytes, a.Face.GroupVersion().String(), a.Face.Kind, form.Size())
	b.Bytes = form.Append(b.Bytes)
	b.Bytes = protobuf.AppendEnvelopeEnd(b.Bytes)
	WriteBytes(a.Writer, resource.ProtobufType, code, b.Bytes)
	return nil
}

// SendStored sends the result of a write: the stored bytes, or the object if it was deleted.
func (a *Answer) SendStored(code int, stored *registry.Stored) error {
	if !a.Native() || a.Format.Shape != negotiate.Object || stored.Object.GetDeletionTimestamp() != nil {
		return a.SendObject(code, stored.Object)
	}
	switch {
	case a.Format.Plain():
		return a.sendStoredJSON(code, stored)
	case a.Format.Media == negotiate.Protobuf && a.StoredProto():
		form, err := wire.StoredProto(a.Kind, stored.Entry, stored.Object)
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		return a.sendProto(code, form)
	}
	return a.SendObject(code, stored.Object)
}

// sendStoredJSON writes the form directly into the response: unlike the cache's forms, no other request will use it.
func (a *Answer) sendStoredJSON(code int, stored *registry.Stored) (err error) {
	b := GetBuffer()
	defer b.Free()
	b.Bytes = wire.AppendTypeMeta(b.Bytes, a.Face.Kind, a.Face.GroupVersion().String())
	if b.Bytes, err = wire.AppendStored(b.Bytes, a.Kind, stored.Entry, stored.Object); err != nil {
		return apierrors.NewInternalError(err)
	}
	b.Bytes = append(b.Bytes, '\n')
	WriteBytes(a.Writer, resource.JSONType, code, b.Bytes)
	return nil
}

// SendObject sends an object of the kind in the shape and version of the request.
func (a *Answer) SendObject(code int, o resource.Object) error {
	switch a.Format.Shape {
	case negotiate.Table:
		table, err := a.table([]resource.Object{o})
		if err != nil {
			return err
		}
		table.ResourceVersion = o.GetResourceVersion()
		return a.Send(code, table, TableGVK)
	case negotiate.Partial:
		return a.Send(code, partialOf(o), PartialGVK)
	case negotiate.PartialList:
		return a.CheckShape()
	}
	return a.Send(code, a.faceOf(o), a.Face.GroupVersionKind)
}

// SendObjects sends a list that is not stored, in the shape of the request.
func (a *Answer) SendObjects(list runtime.Object, items []runtime.Object) error {
	objects := make([]resource.Object, len(items))
	for i, o := range items {
		objects[i] = o.(resource.Object)
	}
	switch a.Format.Shape {
	case negotiate.Table:
		table, err := a.table(objects)
		if err != nil {
			return err
		}
		return a.Send(http.StatusOK, table, TableGVK)
	case negotiate.PartialList:
		partial := &metav1.PartialObjectMetadataList{}
		for _, o := range objects {
			partial.Items = append(partial.Items, *partialOf(o))
		}
		return a.Send(http.StatusOK, partial, partialListGVK)
	case negotiate.Partial:
		return a.CheckShape()
	}
	return a.Send(http.StatusOK, list, a.Face.GroupVersion().WithKind(a.Face.ListKind))
}

// faceOf converts an object of the kind to the request's version.
func (a *Answer) faceOf(o resource.Object) runtime.Object {
	if a.Native() {
		return o
	}
	return a.Face.From(o)
}

var (
	TableGVK       = schema.GroupVersionKind{Group: metav1.GroupName, Version: "v1", Kind: "Table"}
	PartialGVK     = schema.GroupVersionKind{Group: metav1.GroupName, Version: "v1", Kind: "PartialObjectMetadata"}
	partialListGVK = schema.GroupVersionKind{Group: metav1.GroupName, Version: "v1", Kind: "PartialObjectMetadataList"}
)

func partialOf(o resource.Object) *metav1.PartialObjectMetadata {
	p := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: o.GetName(), GenerateName: o.GetGenerateName(), Namespace: o.GetNamespace(), UID: o.GetUID(),
		ResourceVersion: o.GetResourceVersion(), Generation: o.GetGeneration(), CreationTimestamp: o.GetCreationTimestamp(),
		DeletionTimestamp: o.GetDeletionTimestamp(), DeletionGracePeriodSeconds: o.GetDeletionGracePeriodSeconds(),
		Labels: o.GetLabels(), Annotations: o.GetAnnotations(), OwnerReferences: o.GetOwnerReferences(),
		Finalizers: o.GetFinalizers(), ManagedFields: o.GetManagedFields(),
	}}
	p.SetGroupVersionKind(PartialGVK)
	return p
}

// Send sends any API object.
func (a *Answer) Send(code int, o runtime.Object, gvk schema.GroupVersionKind) error {
	b, contentType, err := marshal(a.Format, o, gvk)
	if err != nil {
		return err
	}
	WriteBytes(a.Writer, contentType, code, b)
	return nil
}

func marshal(f negotiate.Format, o runtime.Object, gvk schema.GroupVersionKind) ([]byte, string, error) {
	o.GetObjectKind().SetGroupVersionKind(gvk)
	if f.Media == negotiate.Protobuf {
		if m, ok := o.(protobuf.Message); ok {
			b, err := protobuf.Marshal(gvk.GroupVersion().String(), gvk.Kind, m)
			return b, resource.ProtobufType, err
		}
		f.Media = negotiate.JSON
	}
	b, err := json.Marshal(o)
	if err != nil {
		return nil, "", apierrors.NewInternalError(err)
	}
	return f.Finish(b)
}

var noGVK schema.GroupVersionKind
