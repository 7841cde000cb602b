package dns

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	wire "github.com/miekg/dns"
	"golang.org/x/sync/singleflight"
)

// forwarder asks upstream servers. Equal requests at the same time share one question to them.
type forwarder struct {
	cache    *cache
	routes   atomic.Pointer[[]route] // the longest domain first
	inFlight singleflight.Group
	now      func() time.Time
	log      *slog.Logger
}

// route is a domain and the servers that are asked for its names.
type route struct {
	domain    string // "." for all
	upstreams []*upstream
}

// The timeouts of a question: for one server, and for all.
const (
	oneAttempt  = 2 * time.Second
	allAttempts = 6 * time.Second
)

// upstreamsFor returns the servers to ask for a name.
func (f *forwarder) upstreamsFor(name string) []*upstream {
	for _, r := range *f.routes.Load() {
		if r.domain == "." || name == r.domain || strings.HasSuffix(name, "."+r.domain) {
			return r.upstreams
		}
	}
	return nil
}

// cached returns the reply from the cache, or nil.
func (f *forwarder) cached(request *wire.Msg) *wire.Msg {
	if m := f.cache.get(cacheKeyOf(request), false); m != nil {
		return asReplyTo(m, request)
	}
	return nil
}

// resolve asks upstream servers. If they fail it returns a stale answer from the cache.
func (f *forwarder) resolve(ctx context.Context, request *wire.Msg) *wire.Msg {
	if known := f.cached(request); known != nil {
		return known
	}
	key := cacheKeyOf(request)
	waiting := f.inFlight.DoChan(fmt.Sprintf("%v", key), func() (any, error) {
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), allAttempts)
		defer cancel()
		return f.exchange(asking, key)
	})
	select {
	case result := <-waiting:
		if m, ok := result.Val.(*wire.Msg); ok && m != nil {
			return asReplyTo(m.Copy(), request)
		}
		f.log.Debug("question not answered", "name", key.name, "err", result.Err)
	case <-ctx.Done():
	}
	if old := f.cache.get(key, true); old != nil {
		return asReplyTo(old, request)
	}
	return plain(request, wire.RcodeServerFailure)
}

// exchange asks one server after the other. Servers that answered last time come first.
func (f *forwarder) exchange(ctx context.Context, key cacheKey) (*wire.Msg, error) {
	err := fmt.Errorf("no server to ask for %s", key.name)
	candidates := slices.Clone(f.upstreamsFor(key.name))
	now := f.now()
	slices.SortStableFunc(candidates, func(a, b *upstream) int { return a.rank(now) - b.rank(now) })
	for _, u := range candidates {
		if u.loops.Load() || ctx.Err() != nil {
			continue
		}
		var m *wire.Msg
		if m, err = u.ask(ctx, key); err == nil {
			f.cache.put(key, m)
			return m, nil
		}
		u.failed.Store(f.now().UnixNano())
	}
	return nil, err
}

// asReplyTo returns an upstream server's message as the reply to a request.
func asReplyTo(m, request *wire.Msg) *wire.Msg {
	m.Id, m.Response, m.Authoritative = request.Id, true, false
	m.RecursionDesired, m.RecursionAvailable = request.RecursionDesired, true
	m.Question = request.Question
	if len(m.Answer) > 1 && m.Answer[0].Header().Rrtype != wire.TypeCNAME {
		shuffle(m.Answer)
	}
	m.Extra = slices.DeleteFunc(m.Extra, func(r wire.RR) bool { return r.Header().Rrtype == wire.TypeOPT })
	if opt := request.IsEdns0(); opt != nil {
		m.SetEdns0(largeSize, opt.Do())
	}
	return m
}
