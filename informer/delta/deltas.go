package delta

// Type is the type of a Delta.
type Type string

// The types of deltas.
const (
	Added    Type = "Added"
	Updated  Type = "Updated"
	Deleted  Type = "Deleted"
	Replaced Type = "Replaced" // part of a complete list
	Sync     Type = "Sync"     // nothing changed: a resync
)

// Delta is one change of an object.
type Delta[T any] struct {
	Type   Type
	Object T
	// FinalStateUnknown: the deletion itself was not seen, and Object is the last state that is known.
	FinalStateUnknown bool
}

// Deltas are the changes of one object, oldest first. There is at least one.
type Deltas[T any] []Delta[T]

// Oldest returns the first change.
func (d Deltas[T]) Oldest() Delta[T] { return d[0] }

// Newest returns the last change.
func (d Deltas[T]) Newest() Delta[T] { return d[len(d)-1] }

// compressed merges two deletions at the end, since the object was deleted once. It keeps the deletion that the watch
// reported.
func (d Deltas[T]) compressed() Deltas[T] {
	n := len(d)
	if n < 2 || d[n-1].Type != Deleted || d[n-2].Type != Deleted {
		return d
	}
	if d[n-1].FinalStateUnknown {
		return d[:n-1]
	}
	return append(d[:n-2:n-2], d[n-1])
}
