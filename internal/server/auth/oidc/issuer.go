package oidc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/millrace/millrace/internal/server/auth"
)

const (
	// retryEvery is how often an issuer is asked that has not answered yet, refreshEvery how often one is asked for its
	// present keys.
	retryEvery   = 10 * time.Second
	refreshEvery = 10 * time.Minute
	// An unknown key makes the issuer be asked at this rate at most.
	askEvery = time.Second
	askBurst = 5
)

// errUnavailable says that an issuer could not be asked: it is worth trying again.
var errUnavailable = errors.New("the issuer cannot be asked")

// issuer knows the keys of one issuer, and what its tokens say.
type issuer struct {
	*mapping
	algorithms  []string
	client      *http.Client
	distributed *resolver // nil if groups are no plain claim
	metrics     *fetches
	log         *slog.Logger
	unknown     *rate.Limiter

	keys atomic.Pointer[keySet] // nil before they have been fetched
	last atomic.Pointer[error]  // of the last fetch, if that failed

	mu     sync.Mutex // guards asking
	asking *fetch     // nil if nobody asks
}

// fetch is a question that is under way.
type fetch struct {
	done chan struct{}
	err  error
}

func newIssuer(m *mapping, o *Options, metrics *fetches) (*issuer, error) {
	client, err := newClient(m.from.Issuer.CertificateAuthority)
	if err != nil {
		return nil, err
	}
	i := &issuer{mapping: m, algorithms: o.Algorithms, client: client, metrics: metrics,
		log: o.Logger.With("issuer", m.from.Issuer.URL), unknown: rate.NewLimiter(rate.Every(askEvery), askBurst)}
	if claim := m.from.ClaimMappings.Groups.Claim; claim != "" {
		i.distributed = &resolver{claim: claim, client: client, audiences: m.from.Issuer.Audiences, algorithms: o.Algorithms}
	}
	return i, nil
}

// run keeps the keys fresh until ctx ends.
func (i *issuer) run(ctx context.Context) {
	defer i.client.CloseIdleConnections()
	for {
		err := i.refresh(ctx)
		wait := refreshEvery
		if err != nil {
			wait = retryEvery
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// refresh fetches the keys. Who comes while they are being fetched waits for the same answer.
func (i *issuer) refresh(ctx context.Context) error {
	for {
		i.mu.Lock()
		f := i.asking
		if f == nil {
			f = &fetch{done: make(chan struct{})}
			i.asking = f
			i.mu.Unlock()
			f.err = i.fetch(ctx)
			i.mu.Lock()
			i.asking = nil
			i.mu.Unlock()
			close(f.done)
			return f.err
		}
		i.mu.Unlock()
		select {
		case <-f.done:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", errUnavailable, context.Cause(ctx))
		}
		if !errors.Is(f.err, context.Canceled) { // of the one who asked
			return f.err
		}
	}
}

func (i *issuer) fetch(ctx context.Context) error {
	keys, err := i.ask(ctx)
	if err != nil {
		err = fmt.Errorf("%w: %w", errUnavailable, err)
		if i.last.Swap(&err) == nil && ctx.Err() == nil {
			i.log.Warn("the keys of an issuer cannot be fetched", "known", i.keys.Load() != nil, "error", err)
		}
		return err
	}
	if i.last.Swap(nil) != nil {
		i.log.Info("the keys of an issuer were fetched")
	}
	if before := i.keys.Load(); before == nil || !bytes.Equal(before.text, keys.text) {
		i.keys.Store(keys)
	}
	return nil
}

func (i *issuer) ask(ctx context.Context) (*keySet, error) {
	from := i.from.Issuer
	at, err := discover(ctx, i.client, from.URL, from.DiscoveryURL)
	if err != nil {
		return nil, err
	}
	text, err := get(ctx, i.client, at, "")
	if err != nil {
		i.metrics.failed(from.URL)
		return nil, fmt.Errorf("oidc: get keys failed: %w", err)
	}
	keys, err := parseKeys(text)
	if err != nil {
		i.metrics.failed(from.URL)
		return nil, err
	}
	i.metrics.fetched(from.URL, text)
	return keys, nil
}

// ready tells whether the issuer's tokens can be checked, or why not.
func (i *issuer) ready() error {
	if i.keys.Load() != nil {
		return nil
	}
	if last := i.last.Load(); last != nil {
		return fmt.Errorf("oidc: authenticator for issuer %q is not healthy: %w", i.from.Issuer.URL, *last)
	}
	return fmt.Errorf("%w: oidc: authenticator for issuer %q is not initialized", errUnavailable, i.from.Issuer.URL)
}

// belief is what a token has been found to say.
type belief struct {
	user  auth.User
	until time.Time
	by    *issuer
	keys  *keySet // that verified it; the belief ends with them
}

// valid tells whether the belief still holds.
func (b *belief) valid(now time.Time) bool { return now.Before(b.until) && b.by.keys.Load() == b.keys }

// believe finds out whom a token of this issuer belongs to.
func (i *issuer) believe(ctx context.Context, t *token, now time.Time) (*belief, error) {
	if err := i.ready(); err != nil {
		return nil, err
	}
	until, err := t.check(i.from.Issuer.Audiences, i.algorithms, now)
	if err != nil {
		return nil, err
	}
	keys, err := i.verify(ctx, t)
	if err != nil {
		return nil, err
	}
	if i.distributed != nil {
		more, err := i.distributed.expand(ctx, t.claims, now)
		if err != nil {
			return nil, fmt.Errorf("oidc: could not expand distributed claims: %w", err)
		}
		if soon := now.Add(distributedLife); more && soon.Before(until) {
			until = soon
		}
	}
	u, err := i.user(ctx, t.claims)
	if err != nil {
		return nil, err
	}
	return &belief{u, until, i, keys}, nil
}

var errSignature = errors.New("failed to verify signature: failed to verify id token signature")

// verify checks the signature, if need be against keys that are fetched anew.
func (i *issuer) verify(ctx context.Context, t *token) (*keySet, error) {
	keys := i.keys.Load()
	if keys.verifies(t) {
		return keys, nil
	}
	if !i.unknown.Allow() {
		return nil, errSignature
	}
	if err := i.refresh(ctx); err != nil {
		return nil, err
	}
	if keys = i.keys.Load(); keys.verifies(t) {
		return keys, nil
	}
	return nil, errSignature
}
