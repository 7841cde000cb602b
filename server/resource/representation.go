package resource

import "context"

// Representation is all that depends on how objects of a kind are held in memory: as Go structs, or as JSON trees.
type Representation interface {
	// New makes an empty object of the kind's version.
	New() Object
	// Decode makes an object, in the kind's version, of stored bytes. They may have been stored by another version. Stored
	// bytes carry no resource version, which is the store's revision.
	Decode(ctx context.Context, stored []byte, resourceVersion string) (Object, error)
	// DecodeAll decodes several. What has to be converted elsewhere is sent there in few requests.
	DecodeAll(ctx context.Context, stored []Stored) ([]Object, error)
	// Encode makes the bytes that are stored for an object.
	Encode(ctx context.Context, o Object) ([]byte, error)
	// Attributes reads labels and fields straight from stored bytes, without making an object.
	Attributes(stored []byte) (Attributes, error)
	// Keep gives a part of an object, which is a field of JSON's outermost level, what it is in old; nothing if old is nil.
	Keep(o, old Object, part string)
	// KeepAllBut gives an object all parts of old but one, and but the metadata.
	KeepAllBut(o, old Object, part string)
	// Same compares a part of two objects.
	Same(a, b Object, part string) bool
}

// Texts is what a representation also is whose stored bytes may be what clients shall see.
type Texts interface {
	// Body is the JSON of a stored object behind its kind and version, under a resource version. ok is false where the object has
	// to be decoded and encoded.
	Body(ctx context.Context, stored, resourceVersion []byte) (body []byte, ok bool)
}

// Foreign is what a representation also is whose objects others may have to convert.
type Foreign interface {
	// Foreign tells whether that is so.
	Foreign() bool
	// Prepare has objects converted in few requests and at the same time, so that Decode finds them converted.
	Prepare(ctx context.Context, stored [][]byte) error
}

// IsForeign tells that decoding objects of a kind may take a request to somebody else, each time unless they are prepared.
func IsForeign(k *Kind) bool {
	f, ok := k.Representation.(Foreign)
	return ok && f.Foreign()
}

// Prepare has objects ready to be decoded, if that takes requests.
func Prepare(ctx context.Context, k *Kind, stored [][]byte) error {
	if f, ok := k.Representation.(Foreign); ok {
		return f.Prepare(ctx, stored)
	}
	return nil
}

// Stored is the bytes of an object, and the resource version that they have.
type Stored struct {
	Bytes           []byte
	ResourceVersion string
}
