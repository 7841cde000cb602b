package apiserver

import (
	"bytes"
	"encoding/json"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/millrace/millrace/server/registry"
	"github.com/millrace/millrace/server/resource"
	"github.com/millrace/millrace/server/watchcache"
	"github.com/millrace/millrace/server/wire"
)

// native tells that the caller sees objects as they are stored, so that the cache's forms can be used.
func (c *call) native() bool { return c.face.From == nil }

// plain tells that an answer can be put together from JSON forms as they are.
func (f format) plain() bool {
	return f.media == mediaJSON && f.shape == shapeObject && !f.pretty
}

// sendCached answers with one object.
func (c *call) sendCached(code int, o *watchcache.Object) error {
	if c.native() && c.format.shape == shapeObject {
		switch {
		case c.format.plain():
			form, err := wire.JSON(c.within, c.kind, o)
			if err != nil {
				return apierrors.NewInternalError(err)
			}
			return c.sendJSON(code, c.face.GroupVersionKind, form)
		case c.format.media == mediaProto && c.isProto():
			form, err := wire.Proto(c.within, c.kind, o)
			if err != nil {
				return apierrors.NewInternalError(err)
			}
			return c.sendProto(code, form)
		}
	}
	if c.format.shape == shapePartial && c.format.media == mediaJSON && !c.format.pretty {
		form, err := wire.MetadataJSON(o)
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		return c.sendJSON(code, partialGVK, form)
	}
	obj, err := c.decode(o)
	if err != nil {
		return err
	}
	return c.sendObject(code, obj)
}

func (c *call) isProto() bool { return c.kind.Stored == resource.StoredProtobuf }

func (c *call) decode(o *watchcache.Object) (resource.Object, error) {
	obj, err := c.kind.Decode(c.within, o.Value(), o.Revision.String())
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return obj, nil
}

// sendJSON sends a JSON form as what it is.
func (c *call) sendJSON(code int, gvk schema.GroupVersionKind, form []byte) error {
	b := getBuffer()
	defer b.free()
	b.bytes = wire.AppendTypeMeta(b.bytes, gvk.Kind, gvk.GroupVersion().String())
	b.bytes = append(b.bytes, form...)
	b.bytes = append(b.bytes, '\n')
	writeBytes(c.w, resource.JSONType, code, b.bytes)
	return nil
}

func (c *call) sendProto(code int, form wire.Message) error {
	b := getBuffer()
	defer b.free()
	b.bytes = resource.AppendEnvelope(b.bytes, c.face.GroupVersion().String(), c.face.Kind, form.Size())
	b.bytes = form.Append(b.bytes)
	b.bytes = resource.AppendEnvelopeEnd(b.bytes)
	writeBytes(c.w, resource.ProtobufType, code, b.bytes)
	return nil
}

// sendStored answers a change with the object that it made, whose bytes are the entry's unless it was deleted.
func (c *call) sendStored(code int, stored *registry.Stored) error {
	if !c.native() || c.format.shape != shapeObject || stored.Object.GetDeletionTimestamp() != nil {
		return c.sendObject(code, stored.Object)
	}
	switch {
	case c.format.plain():
		return c.sendStoredJSON(code, stored)
	case c.format.media == mediaProto && c.isProto():
		form, err := wire.StoredProto(c.kind, stored.Entry, stored.Object)
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		return c.sendProto(code, form)
	}
	return c.sendObject(code, stored.Object)
}

// sendStoredJSON writes the form right into the answer: nobody else will want it, unlike the cache's.
func (c *call) sendStoredJSON(code int, stored *registry.Stored) (err error) {
	b := getBuffer()
	defer b.free()
	b.bytes = wire.AppendTypeMeta(b.bytes, c.face.Kind, c.face.GroupVersion().String())
	if b.bytes, err = wire.AppendStored(b.bytes, c.kind, stored.Entry, stored.Object); err != nil {
		return apierrors.NewInternalError(err)
	}
	b.bytes = append(b.bytes, '\n')
	writeBytes(c.w, resource.JSONType, code, b.bytes)
	return nil
}

// sendObject answers with an object of the kind in whatever shape and version the caller wants.
func (c *call) sendObject(code int, o resource.Object) error {
	switch c.format.shape {
	case shapeTable:
		table, err := c.table([]resource.Object{o})
		if err != nil {
			return err
		}
		table.ResourceVersion = o.GetResourceVersion()
		return c.send(code, table, tableGVK)
	case shapePartial:
		return c.send(code, partialOf(o), partialGVK)
	case shapePartialList:
		return c.unlike()
	}
	return c.send(code, c.faceOf(o), c.face.GroupVersionKind)
}

// faceOf turns an object of the kind into what the caller speaks of.
func (c *call) faceOf(o resource.Object) runtime.Object {
	if c.native() {
		return o
	}
	return c.face.From(o)
}

var (
	tableGVK       = schema.GroupVersionKind{Group: metav1.GroupName, Version: "v1", Kind: "Table"}
	partialGVK     = schema.GroupVersionKind{Group: metav1.GroupName, Version: "v1", Kind: "PartialObjectMetadata"}
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
	p.SetGroupVersionKind(partialGVK)
	return p
}

// send answers with any API object.
func (c *call) send(code int, o runtime.Object, gvk schema.GroupVersionKind) error {
	b, contentType, err := marshal(c.format, o, gvk)
	if err != nil {
		return err
	}
	writeBytes(c.w, contentType, code, b)
	return nil
}

func marshal(f format, o runtime.Object, gvk schema.GroupVersionKind) ([]byte, string, error) {
	o.GetObjectKind().SetGroupVersionKind(gvk)
	if f.media == mediaProto {
		if m, ok := o.(resource.ProtoMessage); ok {
			b, err := resource.MarshalProto(gvk.GroupVersion().String(), gvk.Kind, m)
			return b, resource.ProtobufType, err
		}
		f.media = mediaJSON
	}
	b, err := json.Marshal(o)
	if err != nil {
		return nil, "", apierrors.NewInternalError(err)
	}
	return f.finish(b)
}

// finish turns JSON text into the format that the caller wants.
func (f format) finish(b []byte) ([]byte, string, error) {
	switch {
	case f.media == mediaYAML:
		b, err := yaml.JSONToYAML(b)
		return b, yamlType, err
	case f.pretty:
		return append(indent(b), '\n'), resource.JSONType, nil
	}
	return append(b, '\n'), resource.JSONType, nil
}

var noGVK schema.GroupVersionKind

func indent(b []byte) []byte {
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", "  "); err != nil {
		return b
	}
	return out.Bytes()
}

// buffer is reusable memory for an answer.
type buffer struct{ bytes []byte }

// largestKept keeps one huge answer from holding on to its memory for ever.
const largestKept = 512 << 10

var buffers = sync.Pool{New: func() any { return &buffer{make([]byte, 0, 8<<10)} }}

func getBuffer() *buffer { return buffers.Get().(*buffer) }

func (b *buffer) free() {
	if cap(b.bytes) > largestKept {
		return
	}
	b.bytes = b.bytes[:0]
	buffers.Put(b)
}
