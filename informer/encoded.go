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
	kept              [][]byte   // the pieces of an object's metadata that stay
}

// read takes the bytes of an object, which stay the caller's.
func (r *encodedReader) read(object []byte) (*encoded, error) {
	before, meta, after, err := splitObject(object)
	if err != nil {
		return nil, fmt.Errorf("read object: %w", err)
	}
	e := &encoded{}
	if err := r.readMeta(e, meta); err != nil {
		return nil, fmt.Errorf("read metadata: %w", err)
	}
	if len(r.kept) == 1 && len(r.kept[0]) == len(meta) {
		e.bytes = append(make([]byte, 0, len(object)), object...)
	} else {
		e.bytes = joinObject(before, r.kept, after)
	}
	return e, nil
}

// readMeta goes through the metadata once, to read what is needed of it and to find what stays.
func (r *encodedReader) readMeta(e *encoded, meta []byte) error {
	r.kept = r.kept[:0]
	piece := meta // where the next piece that stays begins
	for rest := meta; len(rest) > 0; {
		f, next, err := nextField(rest)
		if err != nil {
			return err
		}
		switch f.number {
		case metaName:
			e.key.Name = string(f.value)
		case metaNamespace:
			e.key.Namespace = r.names.bytes(f.value)
		case metaUID:
			e.uid = hashUIDBytes(f.value)
		case metaResourceVersion:
			e.version = string(f.value)
		case metaManagedFields:
			if r.dropManagedFields {
				if ahead := len(piece) - len(rest); ahead > 0 {
					r.kept = append(r.kept, piece[:ahead])
				}
				piece = next
			}
		}
		rest = next
	}
	r.kept = append(r.kept, piece)
	return nil
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
