package past

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/millrace/millrace/internal/server/apiserver"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/custom"
	"github.com/millrace/millrace/internal/server/openapi"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/watchcache"
	"github.com/millrace/millrace/internal/server/webhook"
)

// Options are what the past is read from and served with.
type Options struct {
	// Store has the past. If it keeps none, every request is told so.
	Store store.Store
	// Kinds makes the built-in kinds.
	Kinds func() ([]*resource.Kind, error)
	// Webhooks convert custom objects.
	Webhooks *webhook.Client
	// RequestTimeout, MinRequestTimeout and BookmarkPeriod are those of the API server.
	RequestTimeout, MinRequestTimeout, BookmarkPeriod time.Duration
	Version                                           version.Info
	Address                                           string
	Logger                                            *slog.Logger
}

// Past serves the moments of the past.
type Past struct {
	o Options

	mu      sync.Mutex // guards everything below, and the readers of moments
	moments []*moment  // the most recently used is last
	readers int        // of all moments
	ending  bool
}

// mostMoments is how many moments are ready at the same time, besides those that are being read, and mostReaders how many
// requests read the past, watches among them.
const (
	mostMoments = 8
	mostReaders = 64
)

// New makes a server of the past. It must be closed.
func New(o Options) *Past { return &Past{o: o} }

// Close ends all moments. Nobody may read them any more.
func (p *Past) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.moments {
		m.end()
	}
	p.moments = nil
}

// End ends all streams. Later requests are still answered, but streams end at once.
func (p *Past) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ending = true
	for _, m := range p.moments {
		if m.api != nil {
			m.api.End()
		}
	}
}

// Handler returns what a path asks for without its prefix, and what answers the request; nil if it has no such prefix.
func (p *Past) Handler(path string) (rest string, answer func(http.ResponseWriter, *http.Request) error) {
	when, ok := strings.CutPrefix(path, "/at/")
	if !ok {
		return path, nil
	}
	when, rest, ok = strings.Cut(when, "/")
	if !ok {
		return "/version", func(w http.ResponseWriter, r *http.Request) error { return p.tell(w, r, when) }
	}
	return "/" + rest, func(w http.ResponseWriter, r *http.Request) error { return p.serve(w, r, when) }
}

func (p *Past) serve(w http.ResponseWriter, r *http.Request, when string) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return apierrors.NewMethodNotSupported(schema.GroupResource{Resource: "the past"}, strings.ToLower(r.Method))
	}
	if err := known(r); err != nil {
		return err
	}
	rev, err := p.Resolve(r.Context(), when)
	if err != nil {
		return err
	}
	m := p.enter(rev)
	if m == nil {
		return apierrors.NewTooManyRequests("too many requests for the past, please try again later", 1)
	}
	defer p.leave(m)
	if m.open.Do(func() { p.open(r.Context(), m) }); m.err != nil {
		return apierrors.NewServiceUnavailable(fmt.Sprintf("the state at revision %d cannot be read: %v", rev, m.err))
	}
	if m.api == nil {
		return apierrors.NewInternalError(errors.New("the moment could not be opened")) // it has panicked
	}
	m.api.ServeHTTP(w, r)
	return nil
}

// known refuses those who are not known: the past costs more than the present.
func known(r *http.Request) error {
	if !auth.UserFrom(r.Context()).In(auth.Authenticated) {
		return apierrors.NewUnauthorized("the past is shown to those who are known")
	}
	return nil
}

// tell answers which revision a moment has, to whoever may ask for the version.
func (p *Past) tell(w http.ResponseWriter, r *http.Request, when string) error {
	if err := known(r); err != nil {
		return err
	}
	rev, err := p.Resolve(r.Context(), when)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(map[string]string{"kind": "Moment", "apiVersion": "millrace.dev/v1alpha1", "revision": rev.String()})
}

// enter returns the moment of a revision, which stays until it is left, or nil if there are too many readers.
func (p *Past) enter(rev store.Revision) *moment {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.readers == mostReaders {
		return nil
	}
	p.readers++
	m := &moment{rev: rev, end: func() {}}
	if i := slices.IndexFunc(p.moments, func(m *moment) bool { return m.rev == rev }); i >= 0 {
		m = p.moments[i]
		p.moments = slices.Delete(p.moments, i, i+1)
	}
	p.moments = append(p.moments, m)
	m.readers++
	return m
}

// leave ends the moments that are too many, and one that could not be opened.
func (p *Past) leave(m *moment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.readers--
	m.readers--
	left := len(p.moments)
	p.moments = slices.DeleteFunc(p.moments, func(m *moment) bool {
		drop := m.readers == 0 && (left > mostMoments || m.err != nil)
		if drop {
			left--
			m.end()
		}
		return drop
	})
}

// errNone is the answer of a server that keeps no past.
func errNone() error {
	return apierrors.NewBadRequest("this server keeps no history: start it with a data directory and --history")
}

// Resolve returns the revision that a moment has. Its errors are those of the API.
func (p *Past) Resolve(ctx context.Context, when string) (store.Revision, error) {
	kept, ok := store.PastOf(p.o.Store)
	if !ok {
		return 0, errNone()
	}
	rev, err := resolve(ctx, kept, when)
	if errors.Is(err, store.ErrCompacted) {
		return 0, apierrors.NewResourceExpired(fmt.Sprintf("the history does not reach back to %s: %v", when, err))
	}
	if err != nil {
		return 0, err
	}
	now, err := p.o.Store.Revision(ctx)
	switch oldest := kept.Oldest(); {
	case err != nil:
		return 0, apierrors.NewInternalError(err)
	case rev > now:
		return 0, apierrors.NewBadRequest(fmt.Sprintf("revision %d is in the future: the newest is %d", rev, now))
	case rev < oldest:
		return 0, apierrors.NewResourceExpired(fmt.Sprintf("the history does not reach back to revision %d: the oldest is %d", rev, oldest))
	}
	return rev, nil
}

func resolve(ctx context.Context, kept store.Past, when string) (store.Revision, error) {
	if rev, err := store.ParseRevision(when); err == nil && when != "" {
		return rev, nil
	}
	at, err := time.Parse(time.RFC3339, when)
	if ago, ok := time.ParseDuration(when); err != nil && ok == nil && ago >= 0 {
		at, err = time.Now().Add(-ago), nil
	}
	if err != nil {
		return 0, apierrors.NewBadRequest(fmt.Sprintf("%q is no moment: give a revision (1234), a time (2026-11-29T12:00:00Z), or how long ago (10m)", when))
	}
	return kept.RevisionAt(ctx, at)
}

// moment is the API at one revision.
type moment struct {
	rev     store.Revision
	open    sync.Once
	api     *apiserver.Server
	err     error  // why it could not be opened
	end     func() // ends what runs
	readers int
}

// openTime bounds how long opening a moment takes: the definitions of custom kinds are read.
const openTime = 30 * time.Second

// open makes the API of a moment, or says why it cannot.
func (p *Past) open(ctx context.Context, m *moment) {
	api, end, err := p.api(ctx, m.rev)
	p.mu.Lock()
	defer p.mu.Unlock()
	m.api, m.end, m.err = api, end, err
	if p.ending && api != nil {
		api.End()
	}
}

// api makes the API of a revision. What runs for it runs until end is called, also after an error.
func (p *Past) api(ctx context.Context, rev store.Revision) (api *apiserver.Server, end func(), err error) {
	end = func() {}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), openTime)
	defer cancel()
	kinds, err := p.o.Kinds()
	if err != nil {
		return nil, end, err
	}
	catalogue, err := resource.NewCatalogue(kinds...)
	if err != nil {
		return nil, end, err
	}
	cache := watchcache.New(&frozen{p.o.Store, rev, true}, watchcache.Options{Root: registry.Root, FormBudget: -1, Logger: p.o.Logger})
	reg, err := registry.New(registry.Options{
		Store: &frozen{p.o.Store, rev, false}, Cache: cache, Catalogue: catalogue, Uncached: map[string]bool{"*": true}, Logger: p.o.Logger,
	})
	if err != nil {
		return nil, end, err
	}
	definitions, err := custom.New(custom.Options{Registry: reg, Fresh: cache.Fresh, Webhooks: p.o.Webhooks, Logger: p.o.Logger})
	if err != nil {
		return nil, end, err
	}
	end = run(cache.Run)
	if err := cache.WaitReady(ctx); err != nil {
		return nil, end, err
	}
	if err := definitions.CatchUp(ctx); err != nil {
		return nil, end, err
	}
	documents := openapi.New(openapi.Options{
		Catalogue: catalogue, Version: p.o.Version.GitVersion,
		Schema: func(f *resource.Face) *openapi.Schema { return openapi.FromDefinition(definitions.Schema(f)) },
	})
	stop := end
	return apiserver.New(apiserver.Options{
		Registry: reg, Authenticate: identified{}, Authorize: auth.Always(auth.Allow), Extra: documents.Handlers(), Replays: true,
		RequestTimeout: p.o.RequestTimeout, MinRequestTimeout: p.o.MinRequestTimeout, BookmarkPeriod: p.o.BookmarkPeriod,
		Version: p.o.Version, Address: p.o.Address, NoProfiling: true, Logger: p.o.Logger,
	}), func() { stop(); documents.Close() }, nil
}

// run runs something until what is returned is called.
func run(f func(context.Context) error) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = f(ctx) })
	return func() { cancel(); running.Wait() }
}

// identified are users who have been identified before.
type identified struct{}

func (identified) Authenticate(r *http.Request) (auth.User, error) {
	return auth.UserFrom(r.Context()), nil
}
