package resource

import (
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Format says how the objects of a kind are stored.
type Format uint8

const (
	StoredProtobuf Format = iota
	StoredJSON
)

// Identity is what never changes of a kind as long as it is served: its name, and where and how its objects are stored.
// Kinds that share an Identity are the same kind at different times, or in different versions: they share objects,
// history and watches.
type Identity struct {
	Group, Resource string
	Namespaced      bool
	// Prefix is the key prefix of the objects, below the store's root.
	Prefix string
	TTL    time.Duration
	Stored Format
	// Custom says that the kind is described by a CustomResourceDefinition.
	Custom bool

	editions atomic.Uint32
}

// GroupResource returns the name that errors and metrics use.
func (i *Identity) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: i.Group, Resource: i.Resource}
}

// Key returns the key of an object, below the root.
func (i *Identity) Key(namespace, name string) string {
	if i.Namespaced {
		return i.Prefix + "/" + namespace + "/" + name
	}
	return i.Prefix + "/" + name
}

// NextEdition returns the number for a Kind whose forms differ from those of all earlier Kinds.
func (i *Identity) NextEdition() uint32 { return i.editions.Add(1) }
