package follow

import (
	"context"
	"log/slog"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/store"
)

// StreamOptions say what a stream gives its owner. Registry, Kinds and Receive are required.
type StreamOptions struct {
	Registry *registry.Registry
	Kinds    []schema.GroupResource
	// Select selects the objects of a kind; nil selects all.
	Select func(*resource.Kind) registry.Selection
	// Freshness is that of the state with which the stream begins.
	Freshness registry.Freshness
	// Begin is called before the whole state comes: at first, and whenever it is not known what has happened since. What
	// was received before holds no more. Nil does nothing.
	Begin func()
	// Receive takes an object that is there from now on, has changed, or is gone. Those with which the stream begins come
	// as Added, without a Source. After an error the stream begins anew.
	Receive func(ctx context.Context, kind *resource.Kind, e registry.Event) error
	// Logger is told why the stream begins anew; nil says nothing.
	Logger *slog.Logger
}

// Stream is the state of some kinds, and each change of it. It reads nothing before it is asked. One goroutine at a time
// may use it, but for Wrote.
type Stream struct {
	o       StreamOptions
	kinds   kinds
	sources []*source      // none unless the stream has begun
	first   store.Revision // the last of those at which they began
}

// source is one of the kinds.
type source struct {
	kind    *resource.Kind
	watcher *registry.Watcher
	cancel  context.CancelFunc
	reached store.Revision // every change up to it has been given
	shown   store.Revision // that of the newest state that has been given
}

// NewStream makes a stream. Close lets go of its place in the history.
func NewStream(o StreamOptions) *Stream {
	return &Stream{o: o, kinds: kinds{registry: o.Registry, of: o.Kinds}}
}

// CatchUp gives what there is. An error is that of Receive, or says that the state cannot be read; the next call begins
// anew.
func (s *Stream) CatchUp(ctx context.Context) error {
	if s.Following() {
		interrupted, err := s.drain(ctx)
		if err == nil || !interrupted {
			return err
		}
		if s.o.Logger != nil {
			s.o.Logger.Info("objects are read again", "kinds", s.o.Kinds, "reason", err)
		}
	}
	if err := s.begin(ctx); err != nil {
		s.Close()
		return err
	}
	_, err := s.drain(ctx)
	return err
}

// Following says whether the stream has begun, and nothing has interrupted it as far as is known.
func (s *Stream) Following() bool { return len(s.sources) > 0 }

// Reached is a revision up to which all changes of all kinds have been given. It is zero until that is the case for the
// last of the revisions at which the kinds began: before, their states are of different revisions.
func (s *Stream) Reached() store.Revision {
	var least store.Revision
	for i, c := range s.sources {
		if i == 0 || c.reached < least {
			least = c.reached
		}
	}
	if least < s.first {
		return 0
	}
	return least
}

// Shown is the revision of the newest state of any kind that has been given. If it is beyond Reached, the kinds have not
// come to the same revision: events can be seen a moment before the cache says that it has reached their revision.
func (s *Stream) Shown() (last store.Revision) {
	for _, c := range s.sources {
		last = max(last, c.shown)
	}
	return last
}

// Wakes are channels, one for each kind, that are closed when there may be more. They are valid until the next CatchUp.
func (s *Stream) Wakes() []<-chan struct{} {
	all := make([]<-chan struct{}, len(s.kinds.of)) // a nil channel is never closed
	for i, c := range s.sources {
		all[i] = c.watcher.Wake()
	}
	return all
}

// Wrote is the revision of the last object of these kinds that this server has changed.
func (s *Stream) Wrote() (store.Revision, error) { return s.kinds.wrote() }

// Close lets go of the place in the history. The next CatchUp would begin anew.
func (s *Stream) Close() {
	for _, c := range s.sources {
		c.watcher.Close()
		c.cancel()
	}
	s.sources = nil
}

// begin places the stream in the history of each kind, and gives the state there.
func (s *Stream) begin(ctx context.Context) error {
	s.Close()
	if s.o.Begin != nil {
		s.o.Begin()
	}
	storages, err := s.kinds.storages()
	if err != nil {
		return err
	}
	for _, storage := range storages {
		c, err := s.open(ctx, storage)
		if err != nil {
			return err
		}
		s.sources = append(s.sources, c)
	}
	for _, c := range s.sources {
		for _, o := range c.watcher.Initial {
			if err := s.o.Receive(ctx, c.kind, registry.Event{Type: watch.Added, Object: o, Revision: o.Revision}); err != nil {
				return err
			}
		}
		c.watcher.Initial = nil
	}
	s.first = s.Shown()
	return nil
}

// open begins a watch, which goes on after the request for which it is begun: that can only give up the beginning.
func (s *Stream) open(ctx context.Context, storage *registry.Storage) (*source, error) {
	kind := storage.Kind()
	q := registry.WatchQuery{Freshness: s.o.Freshness, Initial: true}
	if s.o.Select != nil {
		q.Selection = s.o.Select(kind)
	} else {
		q.Selection = registry.Select(kind.Faces[0], "", "", nil, nil)
	}
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	lasts := context.AfterFunc(ctx, cancel)
	w, err := storage.Watch(lasting, q)
	switch {
	case err != nil:
		lasts()
		cancel()
		return nil, err
	case !lasts():
		w.Close()
		return nil, context.Cause(ctx)
	}
	return &source{kind: kind, watcher: w, cancel: cancel, shown: w.InitialRevision}, nil
}

// drain gives what the watches have. If it fails the stream is closed; interrupted says that its place is lost.
func (s *Stream) drain(ctx context.Context) (interrupted bool, err error) {
	for _, c := range s.sources {
		for {
			e, ok, err := c.watcher.Next()
			if err != nil {
				s.Close()
				return true, err
			}
			if !ok {
				break
			}
			c.reached, c.shown = e.Revision-1, e.Revision // others of the same revision may follow
			if err := s.o.Receive(ctx, c.kind, e); err != nil {
				s.Close()
				return false, err
			}
		}
		if at, ok := c.watcher.Bookmark(); ok {
			c.reached = at
		}
	}
	return false, nil
}
