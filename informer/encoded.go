package informer

import (
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// encoded is an object of which only as much has been read as is needed to keep it.
type encoded struct {
	key      Key
	version  string
	uid      uint32
	bytes    []byte // protobuf, without an envelope; nobody else has them
	finished bool   // it is the bookmark that ends a streamed list
}

// GetResourceVersion makes encoded an item.
func (e *encoded) GetResourceVersion() string { return e.version }

// GetAnnotations makes encoded an item. Only that one annotation is of interest to a reflector.
func (e *encoded) GetAnnotations() map[string]string {
	if e.finished {
		return map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	return nil
}

// protobuf is what all generated types of k8s.io/api have.
type protobuf interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// speaksProtobuf reports whether objects of type T can be kept encoded.
func speaksProtobuf[T Object]() bool {
	_, ok := reflect.Zero(reflect.TypeFor[T]()).Interface().(protobuf)
	return ok
}

// decodeInto returns the object that the bytes encode.
func decodeInto[T any](bytes []byte) (T, error) {
	var none T
	object := reflect.New(reflect.TypeFor[T]().Elem()).Interface()
	if err := object.(protobuf).Unmarshal(bytes); err != nil {
		return none, err
	}
	return object.(T), nil
}

// encodedReader reads objects into encoded form.
type encodedReader struct {
	dropManagedFields bool
	names             vocabulary // of namespaces: few, and each object has one
}

// read takes the bytes of an object, which stay the caller's.
func (r *encodedReader) read(object []byte) (*encoded, error) {
	meta, err := objectMeta(object)
	if err != nil {
		return nil, fmt.Errorf("read object: %w", err)
	}
	e := &encoded{}
	err = eachField(meta, func(f wireField) error {
		switch f.number {
		case metaName:
			e.key.Name = string(f.value)
		case metaNamespace:
			e.key.Namespace = r.names.bytes(f.value)
		case metaUID:
			e.uid = hashUIDBytes(f.value)
		case metaResourceVersion:
			e.version = string(f.value)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read metadata: %w", err)
	}
	if r.dropManagedFields {
		e.bytes, err = withoutManagedFields(object)
	} else {
		e.bytes = append(make([]byte, 0, len(object)), object...)
	}
	return e, err
}

// readBookmark takes the bytes of a bookmark's object.
func (r *encodedReader) readBookmark(object []byte) (*encoded, error) {
	e, err := r.read(object)
	if err != nil {
		return nil, err
	}
	meta, err := objectMeta(object)
	if err != nil {
		return nil, err
	}
	annotations := readMap(meta, metaAnnotations, nil)
	e.finished = annotations[metav1.InitialEventsAnnotationKey] == "true"
	return e, nil
}

// encode makes an encoded object of a decoded one.
func (r *encodedReader) encode(object Object) (*encoded, error) {
	if r.dropManagedFields {
		object.SetManagedFields(nil)
	}
	bytes, err := object.(protobuf).Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", KeyOf(object), err)
	}
	return &encoded{
		key: KeyOf(object), version: object.GetResourceVersion(), uid: hashUID(string(object.GetUID())), bytes: bytes,
		finished: object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true",
	}, nil
}
