package resource

import "context"

// Representation is everything that depends on how objects of a kind are held in memory: as Go structs, or as JSON
// trees.
type Representation interface {
	// New returns an empty object of the kind's version.
	New() Object
	// Decode decodes stored bytes to an object in the kind's version. The bytes may be of another version. They contain
	// no resource version, because that is the revision in the store.
	Decode(ctx context.Context, stored []byte, resourceVersion string) (Object, error)
	// DecodeAll decodes several objects. Conversions by a webhook are combined to few requests.
	DecodeAll(ctx context.Context, stored []Stored) ([]Object, error)
	// Encode returns the bytes to store for an object.
	Encode(ctx context.Context, o Object) ([]byte, error)
	// Attributes reads labels and fields directly from stored bytes.
	Attributes(stored []byte) (Attributes, error)
	// Keep sets a part of an object, which is a top-level field in JSON, to its value in old; it removes the part if
	// old is nil.
	Keep(o, old Object, part string)
	// KeepAllBut sets all parts of an object to their values in old, except one part and the metadata.
	KeepAllBut(o, old Object, part string)
	// Same compares a part of two objects.
	Same(a, b Object, part string) bool
}

// Texts is implemented by representations whose stored bytes may be sent to clients.
type Texts interface {
	// Body returns the JSON of a stored object after its kind and version, with a resource version. If ok is false, the
	// object has to be decoded and encoded.
	Body(ctx context.Context, stored, resourceVersion []byte) (body []byte, ok bool)
}

// Rewriting is implemented by representations that may store objects in another version than their own.
type Rewriting interface {
	// Rewrites reports whether they do. Then an object that was written may differ from what is read: the other version
	// has fields and defaults of its own.
	Rewrites() bool
}

// Foreign is implemented by representations whose objects may need conversion by a webhook.
type Foreign interface {
	// Foreign reports whether they may.
	Foreign() bool
	// Prepare converts objects in few concurrent requests, so that Decode finds the results.
	Prepare(ctx context.Context, stored [][]byte) error
	// StoredInVersion reports whether an object is stored in this version, by the fields among its Attributes. It is
	// false if they do not say.
	StoredInVersion(fields []string) bool
	// VersionAttributes returns labels and fields that stored objects have in this version. Objects of other versions
	// are converted in few requests.
	VersionAttributes(ctx context.Context, stored [][]byte) []VersionAttributes
}

// VersionAttributes are the attributes that an object has in a version. Err is why it could not be converted to that
// version.
type VersionAttributes struct {
	Attributes
	Err error
}

// IsForeign reports whether decoding an object of a kind may need a request to a webhook, unless the object was
// prepared.
func IsForeign(k *Kind) bool {
	f, ok := k.Representation.(Foreign)
	return ok && f.Foreign()
}

// Prepare makes objects ready to be decoded, if decoding them needs requests.
func Prepare(ctx context.Context, k *Kind, stored [][]byte) error {
	if f, ok := k.Representation.(Foreign); ok {
		return f.Prepare(ctx, stored)
	}
	return nil
}

// Stored is the stored bytes and the resource version of an object.
type Stored struct {
	Bytes           []byte
	ResourceVersion string
}
