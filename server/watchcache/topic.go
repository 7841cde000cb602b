package watchcache

// Topic is the part of a kind that a cursor follows. The zero value is all of it. Topics are comparable.
type Topic struct {
	class topicClass
	field int16
	value string
}

type topicClass uint8

const (
	topicAll topicClass = iota
	topicNamespace
	topicKey
	topicField
	topicClasses
)

// All is every object of the kind.
func All() Topic { return Topic{} }

// Namespace is every object in a namespace.
func Namespace(ns string) Topic { return Topic{class: topicNamespace, value: ns} }

// Key is the one object with that key, be it there or not.
func Key(key string) Topic { return Topic{class: topicKey, value: key} }

// Field is every object whose selectable field i has the value. It is cheap to follow if the field is indexed.
func Field(i int, value string) Topic {
	return Topic{class: topicField, field: int16(i), value: value}
}

// Matches tells whether an object is part of the topic.
func (t Topic) Matches(o *Object) bool {
	switch t.class {
	case topicNamespace:
		return o.Namespace() == t.value
	case topicKey:
		return o.Key == t.value
	case topicField:
		return o.Field(int(t.field)) == t.value
	default:
		return true
	}
}

// concerns tells whether an event appears on the topic: when an object leaves it, its last event still does.
func (t Topic) concerns(e *Event) bool {
	return t.class == topicAll || t.Matches(e.Object) || e.Previous != nil && t.Matches(e.Previous)
}

// thread is the list of one topic's events. It exists while cursors follow it, and knows only what came since.
type thread struct {
	topic   Topic
	cursors int
	list    list
}

// stitch is the place of one event on one thread.
type stitch struct {
	thread *thread
	link   *link
}

// threads are a history's topics that somebody follows. A class of topics that nobody follows costs an event nothing, a
// value that nobody follows costs it one look into a map.
type threads struct {
	byTopic map[Topic]*thread
	classes [topicClasses]int
	indexed []int
}

// joinLocked returns the topic's thread, for one more cursor.
func (ts *threads) joinLocked(t Topic) *thread {
	th := ts.byTopic[t]
	if th == nil {
		th = &thread{topic: t, list: newList()}
		if ts.byTopic == nil {
			ts.byTopic = make(map[Topic]*thread)
		}
		ts.byTopic[t] = th
		ts.classes[t.class]++
	}
	th.cursors++
	return th
}

func (ts *threads) leaveLocked(th *thread) {
	if th.cursors--; th.cursors == 0 {
		delete(ts.byTopic, th.topic)
		ts.classes[th.topic.class]--
	}
}

// pushLocked puts an event on all threads that it concerns and returns its places there, mostly none.
func (ts *threads) pushLocked(e *Event, sleepers *[]chan struct{}) (on []stitch) {
	put := func(t Topic) {
		if th := ts.byTopic[t]; th != nil {
			on = append(on, stitch{th, th.list.push(e, sleepers)})
		}
	}
	if ts.classes[topicNamespace] > 0 {
		put(Namespace(e.Object.Namespace()))
	}
	if ts.classes[topicKey] > 0 {
		put(Key(e.Object.Key))
	}
	if ts.classes[topicField] == 0 {
		return on
	}
	for _, i := range ts.indexed {
		is := e.Object.Field(i)
		put(Field(i, is))
		if e.Previous != nil && e.Previous.Field(i) != is {
			put(Field(i, e.Previous.Field(i)))
		}
	}
	return on
}
