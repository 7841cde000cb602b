package watch

// EventType is the type of an event. The values are those of the wire format.
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
	// Object is the new state after Added and Modified, and the last state after Deleted. In a Bookmark only its
	// resource version (and sometimes an annotation) is set. It is empty in an Error.
	Object T
	// Err is the error of an Error event. It is nil in all others.
	Err error
}
