package guarantees_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/millrace/millrace/internal/server/store"
)

// content is the part of an object that the random test uses.
type content struct {
	value, group, node, phase string
}

// valueAnnotation is the annotation with a unique value in every version of every object.
const valueAnnotation = "value"

func factOf(o metav1.Object) content {
	f := content{value: o.GetAnnotations()[valueAnnotation], group: o.GetLabels()["group"]}
	if p, ok := o.(*corev1.Pod); ok {
		f.node, f.phase = p.Spec.NodeName, string(p.Status.Phase)
	}
	return f
}

// version is an object as of one revision.
type version struct {
	content
	rev store.Revision
}

// change is one entry of the store's log.
type change struct {
	resource, name string
	rev            store.Revision
	before         *version // nil if there was none
	now            *version // nil if it was deleted
}

// logModel is the model: the store's complete log, and so every state that there ever was. The store's own tests check
// the log. Here everything that goes through the API is compared with it.
type logModel struct {
	t        *testing.T
	mu       sync.Mutex // guards the rest
	changes  []change
	byRev    map[store.Revision]int
	present  map[string]map[string]*version // by resource and name
	reached  store.Revision
	advanced chan struct{} // closed when reached grows
	values   map[string]bool
}

func newTruth(t *testing.T) *logModel {
	return &logModel{t: t, byRev: map[store.Revision]int{}, present: map[string]map[string]*version{}, advanced: make(chan struct{}), values: map[string]bool{}}
}

// follow reads the log until the store is closed, and resumes after errors of the watch.
func (l *logModel) follow(ctx context.Context, s store.Store) {
	for {
		err := s.Watch(ctx, "/registry/", max(l.at(), 1), l.take)
		switch {
		case ctx.Err() != nil || errors.Is(err, store.ErrClosed):
			return
		case !errors.Is(err, store.ErrUnavailable):
			l.t.Errorf("the log cannot be read: %v", err)
			return
		}
	}
}

func (l *logModel) at() store.Revision {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reached
}

// wait waits until the log has been read up to a revision.
func (l *logModel) wait(rev store.Revision) {
	for {
		l.mu.Lock()
		reached, advanced := l.reached, l.advanced
		l.mu.Unlock()
		if reached >= rev {
			return
		}
		<-advanced
	}
}

func (l *logModel) take(b store.Batch) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range b.Events {
		if e.Revision <= l.reached {
			return fmt.Errorf("the log goes back from %d to %d", l.reached, e.Revision)
		}
		l.addLocked(e)
	}
	if b.Revision > l.reached {
		l.reached = b.Revision
		close(l.advanced)
		l.advanced = make(chan struct{})
	}
	return nil
}

func (l *logModel) addLocked(e store.Event) {
	parts := strings.Split(strings.TrimPrefix(e.Key, "/registry/"), "/")
	if len(parts) != 3 || parts[1] != "default" {
		return
	}
	c := change{resource: parts[0], name: parts[2], rev: e.Revision}
	objects := l.present[c.resource]
	if objects == nil {
		objects = map[string]*version{}
		l.present[c.resource] = objects
	}
	c.before = objects[c.name]
	if e.Type == store.Delete {
		delete(objects, c.name)
	} else {
		o, _, err := scheme.Codecs.UniversalDeserializer().Decode(e.Value, nil, nil)
		if err != nil {
			l.t.Errorf("what is stored at %s cannot be read: %v", e.Key, err)
			return
		}
		c.now = &version{factOf(o.(metav1.Object)), e.Revision}
		objects[c.name] = c.now
		l.values[c.now.value] = true
	}
	l.byRev[c.rev] = len(l.changes)
	l.changes = append(l.changes, c)
}

// selector is the selection of a list or watch, as options and as a function.
type selector struct {
	resource, labels, fields string
	selects                  func(content) bool
}

func (s selector) String() string { return fmt.Sprintf("%s(%s;%s)", s.resource, s.labels, s.fields) }

// state returns the selected objects at a revision, by name.
func (l *logModel) state(s selector, rev store.Revision) map[string]version {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]version{}
	for _, c := range l.changes {
		if c.rev > rev {
			break
		}
		switch {
		case c.resource != s.resource:
		case c.now != nil && s.selects(c.now.content):
			out[c.name] = *c.now
		default:
			delete(out, c.name)
		}
	}
	return out
}

// seenEvent is one event that a watcher received.
type seenEvent struct {
	kind    watch.EventType
	name    string
	content content
	event   store.Revision
}

// events returns the events that a selection must receive after one revision and up to another.
func (l *logModel) events(s selector, from, to store.Revision) []seenEvent {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []seenEvent
	begin, _ := slices.BinarySearchFunc(l.changes, from+1, func(c change, rev store.Revision) int { return int(c.rev - rev) })
	for _, c := range l.changes[begin:] {
		if c.rev > to {
			break
		}
		if c.resource != s.resource {
			continue
		}
		was := c.before != nil && s.selects(c.before.content)
		is := c.now != nil && s.selects(c.now.content)
		switch {
		case is && was:
			out = append(out, seenEvent{watch.Modified, c.name, c.now.content, c.rev})
		case is:
			out = append(out, seenEvent{watch.Added, c.name, c.now.content, c.rev})
		case was:
			out = append(out, seenEvent{watch.Deleted, c.name, c.before.content, c.rev})
		}
	}
	return out
}

// listed compares a list with the state at its revision.
func (l *logModel) listed(what string, s selector, rev store.Revision, got map[string]version) {
	l.t.Helper()
	if want := l.state(s, rev); !maps.Equal(got, want) {
		l.t.Errorf("%s: %v at %d:\n got %v\nwant %v", what, s, rev, got, want)
	}
}

// writeResult is the answer to a write.
type writeResult struct {
	verb           string // create, update, delete
	resource, name string
	value          string
	before, after  store.Revision // before is zero for a create; after is unknown for a delete
}

// acknowledged compares the answers to writes with the log.
func (l *logModel) acknowledged(claims []writeResult) {
	l.mu.Lock()
	defer l.mu.Unlock()
	deleted := map[string]bool{}
	for _, c := range l.changes {
		if c.now == nil && c.before != nil {
			deleted[fmt.Sprint(c.resource, "/", c.name, "@", c.before.rev)] = true
		}
	}
	for _, c := range claims {
		if c.verb == "delete" {
			if !deleted[fmt.Sprint(c.resource, "/", c.name, "@", c.before)] {
				l.t.Errorf("Acknowledged: %v did not happen", c)
			}
			continue
		}
		i, ok := l.byRev[c.after]
		if !ok {
			l.t.Errorf("Acknowledged: %v did not happen", c)
			continue
		}
		is := l.changes[i]
		switch {
		case is.resource != c.resource || is.name != c.name || is.now == nil || is.now.value != c.value:
			l.t.Errorf("Acknowledged: %v, but there is %v", c, is)
		case c.before == 0 && is.before != nil:
			l.t.Errorf("CAS: %v replaced %v", c, is.before)
		case c.before != 0 && (is.before == nil || is.before.rev != c.before):
			l.t.Errorf("CAS: %v replaced %v", c, is.before)
		}
	}
}

// refused checks that refused writes had no effect.
func (l *logModel) refused(values []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range values {
		if l.values[v] {
			l.t.Errorf("CAS: %s was refused and is there", v)
		}
	}
}
