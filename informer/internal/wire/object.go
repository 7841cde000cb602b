package wire

import (
	"fmt"
	"hash/maphash"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/informer/internal/intern"
	"github.com/millrace/millrace/internal/protobuf"
)

// Object is an encoded object. Only the fields that an informer needs have been read.
type Object struct {
	Namespace, Name string
	Version         string // the resource version
	UID             uint32 // see HashUID
	Bytes           []byte // protobuf, without an envelope; no other object shares them
	finished        bool   // it is the bookmark that ends a streamed list
}

// GetResourceVersion returns the resource version.
func (o *Object) GetResourceVersion() string { return o.Version }

// GetAnnotations returns the only annotation that readers of lists and watches need: the one that ends a streamed list.
func (o *Object) GetAnnotations() map[string]string {
	if o.finished {
		return map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	return nil
}

// message is implemented by all generated types of k8s.io/api.
type message interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// Supports reports whether objects of type T can be encoded.
func Supports[T any]() bool {
	_, ok := reflect.Zero(reflect.TypeFor[T]()).Interface().(message)
	return ok
}

// Encode returns the bytes of an object, whose type must be supported.
func Encode(object any) ([]byte, error) { return object.(message).Marshal() }

// Decode returns the object that the bytes encode. Its type must be supported.
func Decode[T any](bytes []byte) (T, error) {
	var none T
	object := reflect.New(reflect.TypeFor[T]().Elem()).Interface()
	if err := object.(message).Unmarshal(bytes); err != nil {
		return none, err
	}
	return object.(T), nil
}

// objectReader makes Objects from the bytes that a server sends.
type objectReader struct {
	dropManagedFields bool
	namespaces        intern.Strings
	kept              [][]byte // the pieces of an object's metadata that are kept
}

// read makes an Object from a copy of these bytes.
func (r *objectReader) read(object []byte) (*Object, error) {
	before, meta, after, err := splitObject(object)
	if err != nil {
		return nil, fmt.Errorf("read object: %w", err)
	}
	e := &Object{}
	if err := r.readMeta(e, meta); err != nil {
		return nil, fmt.Errorf("read metadata: %w", err)
	}
	if len(r.kept) == 1 && len(r.kept[0]) == len(meta) {
		e.Bytes = append(make([]byte, 0, len(object)), object...)
	} else {
		e.Bytes = joinObject(before, r.kept, after)
	}
	return e, nil
}

// readMeta reads the metadata once: it stores the needed fields and finds the pieces to keep.
func (r *objectReader) readMeta(e *Object, meta []byte) error {
	r.kept = r.kept[:0]
	piece := meta // where the next piece to keep begins
	s := protobuf.Scan(meta)
	for s.Next() {
		switch s.Number {
		case metaName:
			e.Name = string(s.Bytes)
		case metaNamespace:
			e.Namespace = r.namespaces.Bytes(s.Bytes)
		case metaUID:
			e.UID = hashUIDBytes(s.Bytes)
		case metaResourceVersion:
			e.Version = string(s.Bytes)
		case metaManagedFields:
			if r.dropManagedFields {
				if ahead := len(piece) - len(s.Rest()) - len(s.Whole); ahead > 0 {
					r.kept = append(r.kept, piece[:ahead])
				}
				piece = s.Rest()
			}
		}
	}
	r.kept = append(r.kept, piece)
	return s.Err()
}

// readBookmark makes an Object from a bookmark.
func (r *objectReader) readBookmark(object []byte) (*Object, error) {
	e, err := r.read(object)
	if err != nil {
		return nil, err
	}
	meta, err := objectMeta(object)
	if err != nil {
		return nil, err
	}
	annotations := readMap(meta, metaAnnotations)
	e.finished = annotations[metav1.InitialEventsAnnotationKey] == "true"
	return e, nil
}

// typed is a decoded object.
type typed interface {
	metav1.Object
	runtime.Object
}

// encode makes an Object from a decoded object.
func (r *objectReader) encode(object typed) (*Object, error) {
	if r.dropManagedFields {
		object.SetManagedFields(nil)
	}
	bytes, err := Encode(object)
	if err != nil {
		return nil, fmt.Errorf("encode %s/%s: %w", object.GetNamespace(), object.GetName(), err)
	}
	return &Object{
		Namespace: object.GetNamespace(), Name: object.GetName(), Version: object.GetResourceVersion(),
		UID: HashUID(string(object.GetUID())), Bytes: bytes,
		finished: object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true",
	}, nil
}

var uidSeed = maphash.MakeSeed()

// HashUID hashes an object's UID. The hash is only used to see whether two versions have the same UID. The hash of no
// UID is zero.
func HashUID(uid string) uint32 {
	if uid == "" {
		return 0
	}
	return uint32(maphash.String(uidSeed, uid))
}

func hashUIDBytes(uid []byte) uint32 {
	if len(uid) == 0 {
		return 0
	}
	return uint32(maphash.Bytes(uidSeed, uid))
}
