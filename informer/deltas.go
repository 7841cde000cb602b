package informer

// DeltaType says what a delta is about.
type DeltaType string

// The types of deltas.
const (
	DeltaAdded    DeltaType = "Added"
	DeltaUpdated  DeltaType = "Updated"
	DeltaDeleted  DeltaType = "Deleted"
	DeltaReplaced DeltaType = "Replaced" // part of a complete list
	DeltaSync     DeltaType = "Sync"     // nothing changed: a resync
)

// Delta is one change of an object.
type Delta[T any] struct {
	Type   DeltaType
	Object T
	// FinalStateUnknown: the deletion itself was not seen, and Object is the last state that is known.
	FinalStateUnknown bool
}

// Deltas are the changes of one object, oldest first. There is always one at least.
type Deltas[T any] []Delta[T]

// Oldest returns the first change.
func (d Deltas[T]) Oldest() Delta[T] { return d[0] }

// Newest returns the last change.
func (d Deltas[T]) Newest() Delta[T] { return d[len(d)-1] }

// compressed merges two deletions at the end: the object was deleted once. Of the two the one that was seen counts.
func (d Deltas[T]) compressed() Deltas[T] {
	n := len(d)
	if n < 2 || d[n-1].Type != DeltaDeleted || d[n-2].Type != DeltaDeleted {
		return d
	}
	if d[n-1].FinalStateUnknown {
		return d[:n-1]
	}
	return append(d[:n-2:n-2], d[n-1])
}
