package oidc

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/auth"
)

// Options say who is believed: one of File and Configuration.
type Options struct {
	// File is an AuthenticationConfiguration, which is followed.
	File          string
	Configuration *Configuration
	// Algorithms are those that tokens may be signed with: all that are known by default.
	Algorithms []string
	// Disallowed are issuers that are none of the configuration's business: the cluster's own.
	Disallowed []string
	// Audiences are the API server's: the tokens are for it, and for nobody else.
	Audiences []string
	// ServerID names the API server in metrics.
	ServerID string
	// Now is the time; nil is time.Now.
	Now    func() time.Time
	Logger *slog.Logger
}

// Tokens knows the holders of tokens that issuers have signed. It is an auth.Tokens.
type Tokens struct {
	o       Options
	metrics *metrics
	current atomic.Pointer[generation]
	// Run's alone: the file as it was read last, and its anonymous part, which cannot change.
	read      string
	anonymous *Anonymous
}

// generation is what a configuration has been made into.
type generation struct {
	issuers map[string]*issuer

	mu       sync.RWMutex // guards believed
	believed map[[sha256.Size]byte]*belief
}

// mostBelieved bounds how many tokens are remembered.
const mostBelieved = 4096

// New reads the configuration. It asks nobody yet: Run does.
func New(o Options) (*Tokens, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Algorithms == nil {
		o.Algorithms = Algorithms
	}
	for _, name := range o.Algorithms {
		if !slices.Contains(Algorithms, name) {
			return nil, fmt.Errorf("oidc: unsupported signing alg: %q", name)
		}
	}
	t := &Tokens{o: o, metrics: newMetrics(o.ServerID)}
	c := o.Configuration
	if o.File != "" {
		text, err := os.ReadFile(o.File)
		if err != nil {
			return nil, err
		}
		if c, err = Parse(text); err != nil {
			return nil, fmt.Errorf("authentication configuration: %s: %w", o.File, err)
		}
		t.read = string(text)
		t.metrics.reloads.Using(text)
	}
	g, errs, err := t.generate(c)
	if err = errors.Join(errs.ToAggregate(), err); err != nil {
		return nil, fmt.Errorf("invalid authentication configuration: %w", err)
	}
	t.anonymous = c.Anonymous
	t.current.Store(g)
	return t, nil
}

// Anonymous says which requests need no credentials, or nil if the configuration does not say.
func (t *Tokens) Anonymous() *Anonymous { return t.anonymous }

// generate makes a configuration usable. Issuers that are the same as before stay, with what they know.
func (t *Tokens) generate(c *Configuration) (*generation, field.ErrorList, error) {
	mappings, errs := compileAll(c, t.o.Disallowed)
	if len(errs) > 0 {
		return nil, errs, nil
	}
	g, before := &generation{issuers: map[string]*issuer{}}, t.current.Load()
	for _, m := range mappings {
		url := m.from.Issuer.URL
		if before != nil {
			if same := before.issuers[url]; same != nil && reflect.DeepEqual(same.from, m.from) {
				g.issuers[url] = same
				continue
			}
		}
		i, err := newIssuer(m, &t.o, t.metrics.fetches)
		if err != nil {
			return nil, nil, err
		}
		g.issuers[url] = i
	}
	return g, nil, nil
}

// Holder implements auth.Tokens.
func (t *Tokens) Holder(ctx context.Context, text string, audiences []string) (auth.Holder, error) {
	meant := t.o.Audiences
	if len(audiences) > 0 {
		meant = nil
		for _, a := range audiences {
			if slices.Contains(t.o.Audiences, a) {
				meant = append(meant, a)
			}
		}
		if len(meant) == 0 {
			return auth.Holder{}, auth.ErrUnknownToken
		}
	}
	b, err := t.current.Load().believe(ctx, text, t)
	if err != nil {
		return auth.Holder{}, err
	}
	return auth.Holder{User: b.user, Audiences: meant}, nil
}

// believe finds out whom a token belongs to, or remembers it.
func (g *generation) believe(ctx context.Context, text string, t *Tokens) (*belief, error) {
	now, key := t.o.Now(), sha256.Sum256([]byte(text))
	g.mu.RLock()
	b := g.believed[key]
	g.mu.RUnlock()
	if b != nil && b.valid(now) {
		return b, nil
	}
	parsed, err := parseToken(text)
	if err != nil {
		return nil, auth.ErrUnknownToken
	}
	i := g.issuers[parsed.issuer]
	if i == nil {
		return nil, auth.ErrUnknownToken
	}
	began := time.Now()
	b, err = i.believe(ctx, parsed, now)
	t.metrics.checked(parsed.issuer, err, time.Since(began))
	switch {
	case errors.Is(err, errUnavailable):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w: %w", auth.ErrUnauthorized, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.believed == nil || len(g.believed) >= mostBelieved {
		g.believed = map[[sha256.Size]byte]*belief{}
	}
	g.believed[key] = b
	return b, nil
}
