package registry

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/watchcache"
)

// mostCatchingUp is how many watches that began before the cache's window are served from the store at the same time.
// Each holds the state of its kind until it has come to the window.
const mostCatchingUp = 4

// catchUp serves a watch from a revision that has left the cache's window, if the store keeps the past as far. If not,
// or if too many others do that now, it fails with the error that is given: the client has to list again.
func (s *Storage) catchUp(ctx context.Context, q WatchQuery, expired error) (*Watcher, error) {
	if _, ok := store.PastOf(s.registry.Store); !ok {
		return nil, expired
	}
	select {
	case s.registry.catchingUp <- struct{}{}:
	default:
		return nil, expired
	}
	f, _, err := s.readState(ctx, q)
	if err != nil {
		<-s.registry.catchingUp
		if apierrors.IsResourceExpired(err) {
			err = expired
		}
		return nil, err
	}
	w := &Watcher{selection: q.Selection}
	w.follow(f.run(ctx, q.prefix(s)), s, &joining{feed: f, from: f, kind: s.cached, topic: q.topic(s), registry: s.registry})
	return w, nil
}

// joining is a feed from the store that becomes a cursor of the cache when it has come to the cache's window.
type joining struct {
	feed
	from     *storeFeed // nil once feed is the cursor
	kind     *watchcache.Kind
	topic    watchcache.Topic
	registry *Registry
}

// Next implements feed.
func (j *joining) Next() (*watchcache.Event, bool, error) {
	e, ok, err := j.feed.Next()
	if ok || err != nil || j.from == nil {
		return e, ok, err
	}
	cursor, err := j.kind.Watch(j.from.Revision(), j.topic)
	if errors.Is(err, watchcache.ErrExpired) { // the window has moved on, and so will the feed
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	j.leave()
	j.feed = cursor
	return cursor.Next()
}

// leave ends reading from the store.
func (j *joining) leave() {
	if j.from == nil {
		return
	}
	j.from.Close()
	j.from = nil
	<-j.registry.catchingUp
}

// Close implements feed.
func (j *joining) Close() {
	if j.from == nil {
		j.feed.Close()
	}
	j.leave()
}
