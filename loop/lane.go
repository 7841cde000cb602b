package loop

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// lane has events that wait to be written, in their order.
type lane struct {
	arrived chan struct{} // holds a token when there are events

	mu     sync.Mutex // guards events
	events []*corev1.Event
}

// put adds an event, unless too many wait already.
func (l *lane) put(e *corev1.Event) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.events) >= maxWaiting {
		return false
	}
	l.events = append(l.events, e)
	l.tellLocked()
	return true
}

// take returns the next event, or nil if there is none.
func (l *lane) take() *corev1.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.events) == 0 {
		return nil
	}
	first := l.events[0]
	l.events[0] = nil
	if l.events = l.events[1:]; len(l.events) == 0 {
		l.events = nil
	} else {
		l.tellLocked()
	}
	return first
}

func (l *lane) tellLocked() {
	select {
	case l.arrived <- struct{}{}:
	default:
	}
}

func (l *lane) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.events)
}
