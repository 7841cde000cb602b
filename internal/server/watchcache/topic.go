package watchcache

// Topic selects the part of a kind that a cursor follows. The zero value selects all of it. Topics are comparable.
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

// All selects every object of the kind.
func All() Topic { return Topic{} }

// Namespace selects every object in a namespace.
func Namespace(ns string) Topic { return Topic{class: topicNamespace, value: ns} }

// Key selects the object with that key, whether it exists or not.
func Key(key string) Topic { return Topic{class: topicKey, value: key} }

// Field selects every object whose selectable field i has the value. It is cheap to follow if the field is indexed.
func Field(i int, value string) Topic {
	return Topic{class: topicField, field: int16(i), value: value}
}

// Matches reports whether an object is part of the topic.
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

// concerns reports whether the topic includes an event. The event with which an object leaves the topic is included.
func (t Topic) concerns(e *Event) bool {
	return t.class == topicAll || t.Matches(e.Object) || e.Previous != nil && t.Matches(e.Previous)
}

// topicList is the list of one topic's events. It exists while cursors follow it, and holds only the events since then.
type topicList struct {
	topic   Topic
	cursors int
	list    list
}

// topicLink is the place of one event on the list of one topic.
type topicLink struct {
	topicList *topicList
	link      *link
}

// topicLists are a history's topics that cursors follow. For a class of topics without cursors an event costs nothing;
// for a value without cursors it costs one map lookup.
type topicLists struct {
	byTopic map[Topic]*topicList
	classes [topicClasses]int
	indexed []int
}

// joinLocked returns the topic's list, for one more cursor.
func (ts *topicLists) joinLocked(t Topic) *topicList {
	th := ts.byTopic[t]
	if th == nil {
		th = &topicList{topic: t, list: newList()}
		if ts.byTopic == nil {
			ts.byTopic = make(map[Topic]*topicList)
		}
		ts.byTopic[t] = th
		ts.classes[t.class]++
	}
	th.cursors++
	return th
}

func (ts *topicLists) leaveLocked(th *topicList) {
	if th.cursors--; th.cursors == 0 {
		delete(ts.byTopic, th.topic)
		ts.classes[th.topic.class]--
	}
}

// pushLocked puts an event on the lists of all topics that it concerns and returns its links there, mostly none.
func (ts *topicLists) pushLocked(e *Event, sleepers *[]chan struct{}) (on []topicLink) {
	put := func(t Topic) {
		if th := ts.byTopic[t]; th != nil {
			on = append(on, topicLink{th, th.list.push(e, sleepers)})
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
