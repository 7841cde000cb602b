package oidc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// distributedLife is how long a distributed claim is believed.
	distributedLife = 10 * time.Second
	// keysLife is how long the keys of those are kept who sign such claims, and mostSigners how many of them.
	keysLife    = refreshEvery
	mostSigners = 16
)

// resolver fetches a claim that a token does not have itself but says where to get: a distributed claim of OpenID
// Connect Core, 5.6.2.
type resolver struct {
	claim                 string
	client                *http.Client
	audiences, algorithms []string

	mu      sync.Mutex // guards signers
	signers map[string]signer
}

// signer has the keys of one who signs distributed claims.
type signer struct {
	keys  *keySet
	until time.Time
}

// source says where a claim is.
type source struct {
	Endpoint    string `json:"endpoint"`
	AccessToken string `json:"access_token"`
}

// expand adds the claim to those of a token, if it is elsewhere. It tells whether it was.
func (r *resolver) expand(ctx context.Context, c claims, now time.Time) (bool, error) {
	_, plain := c[r.claim]
	_, elsewhere := c["_claim_names"]
	if plain || !elsewhere {
		return false, nil
	}
	var names map[string]string
	if err := c.read("_claim_names", &names); err != nil {
		return false, fmt.Errorf("oidc: error parsing distributed claim names: %w", err)
	}
	var sources map[string]source
	if err := c.read("_claim_sources", &sources); errors.Is(err, errNoClaim) {
		return false, errors.New("oidc: no claim sources")
	} else if err != nil {
		return false, fmt.Errorf("oidc: could not parse claim sources: %w", err)
	}
	name, ok := names[r.claim]
	if !ok {
		return false, nil
	}
	from, ok := sources[name]
	if !ok {
		return false, fmt.Errorf("id token _claim_names contained a source %s missing in _claims_sources", name)
	}
	if from.Endpoint == "" { // perhaps an aggregated claim
		return false, nil
	}
	return true, r.resolve(ctx, from, c, now)
}

func (r *resolver) resolve(ctx context.Context, from source, c claims, now time.Time) error {
	text, err := get(ctx, r.client, from.Endpoint, from.AccessToken)
	if err != nil {
		return fmt.Errorf("%w: while getting distributed claim %q: %w", errUnavailable, r.claim, err)
	}
	t, err := parseToken(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("getting untrusted issuer from endpoint %v failed for claim %q: %w", from.Endpoint, r.claim, err)
	}
	if _, err := t.check(r.audiences, r.algorithms, now); err != nil {
		return fmt.Errorf("verify distributed claim token: %w", err)
	}
	keys, err := r.keysOf(ctx, t.issuer, now)
	if err != nil {
		return fmt.Errorf("%w: verifying untrusted issuer %v failed: %w", errUnavailable, t.issuer, err)
	}
	if !keys.verifies(t) {
		return fmt.Errorf("verify distributed claim token: %w", errSignature)
	}
	value, ok := t.claims[r.claim]
	if !ok {
		return fmt.Errorf("jwt returned by distributed claim endpoint %q did not contain claim: %v", from.Endpoint, r.claim)
	}
	c[r.claim] = value
	return nil
}

// keysOf are the keys of one who signs claims. Like any issuer it says itself where they are.
func (r *resolver) keysOf(ctx context.Context, issuer string, now time.Time) (*keySet, error) {
	r.mu.Lock()
	known, ok := r.signers[issuer]
	r.mu.Unlock()
	if ok && now.Before(known.until) {
		return known.keys, nil
	}
	at, err := discover(ctx, r.client, issuer, "")
	if err != nil {
		return nil, err
	}
	text, err := get(ctx, r.client, at, "")
	if err != nil {
		return nil, err
	}
	keys, err := parseKeys(text)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.signers == nil || len(r.signers) >= mostSigners {
		r.signers = map[string]signer{}
	}
	r.signers[issuer] = signer{keys, now.Add(keysLife)}
	return keys, nil
}
