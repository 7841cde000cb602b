package watchcache

import "github.com/millrace/millrace/server/store"

// EventType says what happened to an object.
type EventType uint8

const (
	Added EventType = iota
	Modified
	Deleted
)

// String implements fmt.Stringer.
func (t EventType) String() string { return [...]string{"Added", "Modified", "Deleted"}[t] }

// eventOverhead is what an event costs in memory besides the value that it keeps alive: itself, its link, its place in
// the window, and the old object.
const eventOverhead = 288

// Event is one change of one object. It is immutable, and the same for all who watch.
type Event struct {
	Type EventType
	// Object is the object after the change; if it was deleted, its last state.
	Object *Object
	// Previous is the object before the change; nil if it was added, the same as Object if it was deleted.
	Previous *Object
	// Revision is the change's. For a deletion it is greater than the object's.
	Revision store.Revision

	forms forms
}

// Form is like Object.Form, for what is sent on a watch about this event.
func (e *Event) Form(edition uint32, slot int, build func() ([]byte, error)) ([]byte, error) {
	return e.forms.get(edition, slot, build)
}

// cost is how many bytes the event adds to those that the state takes anyway.
func (e *Event) cost() int {
	if e.Previous == nil {
		return eventOverhead
	}
	return eventOverhead + int(e.Previous.size)
}

// retire drops the forms that no watch which starts from now on can ask for.
func (e *Event) retire() {
	e.forms.drop()
	if e.Previous != nil {
		e.Previous.forms.drop()
	}
}
