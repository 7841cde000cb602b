package watchcache

import "github.com/millrace/millrace/internal/server/store"

// EventType says whether an object was added, modified or deleted.
type EventType uint8

const (
	Added EventType = iota
	Modified
	Deleted
)

// String implements fmt.Stringer.
func (t EventType) String() string { return [...]string{"Added", "Modified", "Deleted"}[t] }

// eventOverhead is the memory of an event besides the value that it keeps alive: the event, its link, its place in the
// window, and the old object.
const eventOverhead = 288

// Event is one change of one object. It is immutable; all watches share it.
type Event struct {
	Type EventType
	// Object is the object after the change; for a deletion, its last state.
	Object *Object
	// Previous is the object before the change: nil if it was added, the same as Object if it was deleted.
	Previous *Object
	// Revision is the revision of the change. For a deletion it is greater than the object's.
	Revision store.Revision

	forms forms
}

// Form is like Object.Form, for what watches send about this event.
func (e *Event) Form(edition uint32, slot int, build func() ([]byte, error)) ([]byte, error) {
	return e.forms.get(edition, slot, build)
}

// cost is the number of bytes that the event adds to those of the state.
func (e *Event) cost() int {
	if e.Previous == nil {
		return eventOverhead
	}
	return eventOverhead + int(e.Previous.size)
}

// keepsLarge reports whether the event keeps a large outdated value.
func (e *Event) keepsLarge() bool {
	return e.Previous != nil && e.Previous != e.Object && e.Previous.size >= minPastPacked
}

// dropForms drops the forms that no new watch can ask for.
func (e *Event) dropForms() {
	e.forms.drop()
	if e.Previous != nil {
		e.Previous.forms.drop()
	}
}
