package loop

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The limits are those of client-go's recorder, so that events look the same.
const (
	burst        = 25               // how many events of one source about one object may come at once
	refill       = 5 * time.Minute  // the time until one more is allowed
	maxSimilar   = 10               // how many events that differ only in their message are written before they are merged
	similarSpan  = 10 * time.Minute // similar events that are further apart are not merged
	mergedPrefix = "(combined from similar events): "
	memory       = 4096 / lanes // how many objects, kinds of events and events are remembered
)

// A correlator decides whether an event is dropped, merged, counted or created. It belongs to one goroutine, and its
// memory is bounded.
type correlator struct {
	budgets lru[eventSubject, *budget]
	similar lru[eventKind, *similarity]
	seen    lru[eventText, counted]
	stamp   int64
}

// eventSubject is an event source and the object of its events.
type eventSubject struct {
	source corev1.EventSource
	object corev1.ObjectReference
}

type eventKind struct {
	eventSubject
	eventType, reason string
}

type eventText struct {
	eventKind
	message string // empty for the merged event
}

type budget struct {
	tokens float64
	at     time.Time
}

type similarity struct {
	messages map[string]bool
	last     time.Time
}

type counted struct {
	name  string
	first metav1.Time
	count int32
}

func newCorrelator() *correlator {
	return &correlator{
		budgets: newLRU[eventSubject, *budget](memory),
		similar: newLRU[eventKind, *similarity](memory),
		seen:    newLRU[eventText, counted](memory),
	}
}

func kindOf(event *corev1.Event) eventKind {
	object := event.InvolvedObject
	object.ResourceVersion = "" // events about any version of the object count as the same
	return eventKind{eventSubject{event.Source, object}, event.Type, event.Reason}
}

// event returns the event to write, with name and count, and the key under which it is counted. nil means that nothing
// is written.
func (c *correlator) event(event *corev1.Event) (*corev1.Event, eventText) {
	now := event.LastTimestamp.Time
	text := eventText{kindOf(event), event.Message}
	if !c.allowed(text.eventSubject, now) {
		return nil, text
	}
	if c.merged(text.eventKind, event.Message, now) {
		text.message = ""
		event.Message = mergedPrefix + event.Message
	}
	if before, ok := c.seen.get(text); ok {
		event.Name, event.FirstTimestamp, event.Count = before.name, before.first, before.count+1
	} else {
		event.Name = c.name(event)
	}
	return event, text
}

// written remembers the event that the server has now.
func (c *correlator) written(text eventText, event *corev1.Event) {
	c.seen.put(text, counted{event.Name, event.FirstTimestamp, event.Count})
}

// allowed takes one token from the subject's budget.
func (c *correlator) allowed(subject eventSubject, now time.Time) bool {
	b, ok := c.budgets.get(subject)
	if !ok {
		b = &budget{tokens: burst, at: now}
		c.budgets.put(subject, b)
	}
	b.tokens = min(burst, b.tokens+float64(now.Sub(b.at))/float64(refill))
	b.at = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// merged reports whether there were so many different messages of one kind lately that this event is merged.
func (c *correlator) merged(kind eventKind, message string, now time.Time) bool {
	s, ok := c.similar.get(kind)
	if !ok || now.Sub(s.last) > similarSpan {
		s = &similarity{messages: map[string]bool{}}
		c.similar.put(kind, s)
	}
	s.last = now
	if s.messages[message] && len(s.messages) < maxSimilar {
		return false
	}
	if len(s.messages) < maxSimilar {
		s.messages[message] = true
	}
	return len(s.messages) >= maxSimilar
}

// name returns a unique name made from the object's name and the time.
func (c *correlator) name(event *corev1.Event) string {
	c.stamp = max(c.stamp+1, event.LastTimestamp.UnixNano())
	return fmt.Sprintf("%s.%x", event.InvolvedObject.Name, c.stamp)
}

func countPatch(event *corev1.Event) ([]byte, error) {
	return json.Marshal(map[string]any{
		"count":         event.Count,
		"lastTimestamp": event.LastTimestamp,
		"message":       event.Message,
	})
}
