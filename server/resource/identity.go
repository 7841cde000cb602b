package resource

import (
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Format is how the objects of a kind are stored.
type Format uint8

const (
	StoredProtobuf Format = iota
	StoredJSON
)

// Identity is what stays of a kind for as long as it is served: its name, where and how its objects are stored, and on what
// fields they can be selected. Kinds that share an Identity are the same kind at different times, or in different versions:
// they share objects, history and watches.
type Identity struct {
	Group, Resource string
	Namespaced      bool
	// Prefix is the path of the objects' keys below the store's root.
	Prefix string
	TTL    time.Duration
	Stored Format
	// Fields can be used in field selectors. Those that are indexed are topics of watches.
	Fields []Field
	// Custom says that the kind is described by a CustomResourceDefinition.
	Custom bool

	editions atomic.Uint32
}

// GroupResource is the name that errors and metrics use.
func (i *Identity) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: i.Group, Resource: i.Resource}
}

// Key is where an object is stored below the root.
func (i *Identity) Key(namespace, name string) string {
	if i.Namespaced {
		return i.Prefix + "/" + namespace + "/" + name
	}
	return i.Prefix + "/" + name
}

// NextEdition is a number for a Kind whose forms differ from those of all Kinds before it.
func (i *Identity) NextEdition() uint32 { return i.editions.Add(1) }
