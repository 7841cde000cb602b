package watch

// EventType says what happened to an event's object. The values are those on the wire.
type EventType string

// The five types of events.
const (
	Added    EventType = "ADDED"
	Modified EventType = "MODIFIED"
	Deleted  EventType = "DELETED"
	Bookmark EventType = "BOOKMARK"
	Error    EventType = "ERROR"
)

// Event is one change.
type Event[T any] struct {
	Type EventType
	// Object is the new state after Added and Modified, the last state after Deleted, and an object of which only the
	// resource version (and sometimes an annotation) counts in a Bookmark. It is empty in an Error.
	Object T
	// Err is what the other side said. It is set in Error events and in no other.
	Err error
}
