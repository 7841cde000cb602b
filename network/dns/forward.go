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

// forwarder asks upstream servers, one question at a time for all who ask the same.
type forwarder struct {
	cache  *cache
	routes atomic.Pointer[[]route] // the longest domain first
	flying singleflight.Group
	now    func() time.Time
	log    *slog.Logger
}

// route says who is asked for the names of a domain.
type route struct {
	domain    string // "." for all
	upstreams []*upstream
}

// The times that a question may take.
const (
	oneAttempt  = 2 * time.Second
	allAttempts = 6 * time.Second
)

// to is who is asked for a name.
func (f *forwarder) to(name string) []*upstream {
	for _, r := range *f.routes.Load() {
		if r.domain == "." || name == r.domain || strings.HasSuffix(name, "."+r.domain) {
			return r.upstreams
		}
	}
	return nil
}

// cached is the reply that needs nobody, or nil.
func (f *forwarder) cached(request *wire.Msg) *wire.Msg {
	if !request.RecursionDesired {
		return plain(request, wire.RcodeRefused)
	}
	if m := f.cache.get(askedOf(request), false); m != nil {
		return addressed(m, request)
	}
	return nil
}

// resolve asks upstream, and falls back to an old answer.
func (f *forwarder) resolve(ctx context.Context, request *wire.Msg) *wire.Msg {
	if known := f.cached(request); known != nil {
		return known
	}
	key := askedOf(request)
	waiting := f.flying.DoChan(fmt.Sprintf("%v", key), func() (any, error) {
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), allAttempts)
		defer cancel()
		return f.exchange(asking, key)
	})
	select {
	case result := <-waiting:
		if m, ok := result.Val.(*wire.Msg); ok && m != nil {
			return addressed(m.Copy(), request)
		}
		f.log.Debug("question not answered", "name", key.name, "err", result.Err)
	case <-ctx.Done():
	}
	if old := f.cache.get(key, true); old != nil {
		return addressed(old, request)
	}
	return plain(request, wire.RcodeServerFailure)
}

// exchange asks one server after the other, those first that answered last time.
func (f *forwarder) exchange(ctx context.Context, key asked) (*wire.Msg, error) {
	err := fmt.Errorf("no server to ask for %s", key.name)
	candidates := slices.Clone(f.to(key.name))
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

// addressed makes an upstream server's message the reply to a request.
func addressed(m, request *wire.Msg) *wire.Msg {
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
