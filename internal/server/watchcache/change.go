package watchcache

import (
	"context"
	"log/slog"
	"slices"

	"github.com/millrace/millrace/internal/server/store"
)

// change is one event of the store, parsed and ready to be applied.
type change struct {
	object *Object // nil for a deletion, and for a value that cannot be read
	// unreadable says why the value cannot be read.
	unreadable *store.UnreadableError
	key        string
	revision   store.Revision
}

// read converts a store's event to a change. It needs no lock.
func (k *Kind) read(e store.Event) change {
	ch := change{key: e.Key, revision: e.Revision}
	switch {
	case e.Unreadable != nil:
		ch.unreadable = e.Unreadable
		k.logUnreadable("a value cannot be read: lists and watches omit the object", store.Entry{Key: e.Key, Revision: e.Revision}, e.Unreadable)
	case e.Type == store.Put:
		ch.object, ch.unreadable = k.readObject(store.Entry{Key: e.Key, Value: e.Value, Revision: e.Revision})
	}
	return ch
}

// readObject makes an object from an entry, or says why it cannot be read.
func (k *Kind) readObject(e store.Entry) (*Object, *store.UnreadableError) {
	var a Attributes
	if k.options.Attributes != nil {
		found, err := k.options.Attributes(e.Key, e.Value)
		if err != nil {
			k.logUnreadable("an object cannot be decoded: lists and watches omit it", e, err)
			return nil, &store.UnreadableError{Key: e.Key, Revision: e.Revision, Undecodable: true, Err: err}
		}
		a = k.cache.intern.attributes(found)
	}
	return newObject(k.options, e, a, k.cache.forms), nil
}

// mostWarnings is how many unreadable objects of a kind are logged as warnings. A lost key makes thousands.
const mostWarnings = 20

// logUnreadable warns of the first unreadable objects of a kind, and logs the others at debug level.
func (k *Kind) logUnreadable(what string, e store.Entry, err error) {
	level := slog.LevelDebug
	if k.unreadableCount.Add(1) <= mostWarnings {
		level = slog.LevelWarn
	}
	k.cache.log.Log(context.Background(), level, what,
		slog.String("kind", k.options.Name), slog.String("key", e.Key), slog.Int64("rev", int64(e.Revision)), slog.Any("err", err))
}

// commit applies the changes of a batch up to rev. Readers of the state see all of them or none.
func (k *Kind) commit(changes []change, rev store.Revision, sleepers *[]chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.end != nil:
	case k.history == nil:
		k.pending = append(k.pending, changes...)
	default:
		k.commitLocked(changes, rev, sleepers)
	}
}

func (k *Kind) commitLocked(changes []change, rev store.Revision, sleepers *[]chan struct{}) {
	k.frozen = nil
	for _, ch := range changes {
		if ch.revision <= k.rev {
			continue // the fill contained it, or the log before it was resumed
		}
		if e := k.applyLocked(ch); e != nil {
			k.history.pushLocked(e, sleepers)
			k.events.Add(1)
		}
	}
	k.rev = max(k.rev, rev)
	k.history.trimLocked(k.options.WindowEvents, k.options.WindowBytes)
	k.past.forgetBefore(k.history.since)
}

// applyLocked changes the state and returns the event; nil if nothing changed.
func (k *Kind) applyLocked(ch change) *Event {
	k.unreadable.note(ch.key, ch.unreadable)
	if ch.object == nil {
		old := k.state.delete(ch.key)
		if old == nil {
			return nil
		}
		return k.event(Deleted, old, old, ch.revision)
	}
	old := k.state.set(ch.key, ch.object)
	if old == nil {
		return k.event(Added, ch.object, nil, ch.revision)
	}
	// Both objects share one key string.
	ch.object.Key = old.Key
	if slices.Equal(old.Fields, ch.object.Fields) {
		ch.object.Fields = old.Fields
	}
	return k.event(Modified, ch.object, old, ch.revision)
}

func (k *Kind) event(t EventType, o, previous *Object, rev store.Revision) *Event {
	e := &Event{Type: t, Object: o, Previous: previous, Revision: rev}
	e.forms.budget = k.cache.forms
	return e
}

// install replaces the state with a fill at rev. All cursors find end, because the events between the old state and the
// fill are unknown. Changes that arrived while the kind was waiting for its fill are applied on top, if the log was not
// lost since.
func (k *Kind) install(state tree, unreadable unreadable, rev store.Revision, end *link, logHeld bool) {
	var sleepers []chan struct{}
	defer func() { wakeAll(sleepers) }()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.end != nil {
		return
	}
	if k.history == nil {
		close(k.ready)
	} else {
		k.history.endLocked(end, &sleepers)
	}
	k.state, k.unreadable, k.frozen, k.rev, k.past = state, unreadable, nil, rev, nil
	k.unpacked = true
	k.history = newHistory(rev, k.options.Indexed)
	if n := len(k.pending); n > 0 && logHeld {
		k.commitLocked(k.pending, k.pending[n-1].revision, &sleepers)
	}
	k.pending = nil
}

// finish ends the kind permanently.
func (k *Kind) finish(end *link, sleepers *[]chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.end != nil {
		return
	}
	k.end = end
	k.pending = nil
	if k.history != nil {
		k.history.endLocked(end, sleepers)
	}
	close(k.ended)
}
