package oidc

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// token is a JWT that has been taken apart. Nothing of it is verified.
type token struct {
	algorithm string
	keyID     string
	signed    string
	signature []byte
	claims    claims
	issuer    string
}

// longestToken bounds what is taken apart.
const longestToken = 256 << 10

var errMalformed = errors.New("oidc: malformed jwt")

// parseToken takes a token in the compact form apart.
func parseToken(text string) (*token, error) {
	if len(text) > longestToken {
		return nil, fmt.Errorf("%w: longer than %d bytes", errMalformed, longestToken)
	}
	parts := strings.SplitN(text, ".", 4)
	if len(parts) != 3 {
		return nil, fmt.Errorf("%w: three parts are needed", errMalformed)
	}
	t := &token{signed: text[:len(parts[0])+1+len(parts[1])]}
	header := map[string]json.RawMessage{}
	if err := decode(parts[0], &header); err != nil {
		return nil, err
	}
	if err := decode(parts[1], &t.claims); err != nil {
		return nil, err
	}
	var err error
	if t.signature, err = base64.RawURLEncoding.DecodeString(parts[2]); err != nil {
		return nil, fmt.Errorf("%w: %w", errMalformed, err)
	}
	if _, there := header["crit"]; there { // and none of these extensions is known
		return nil, fmt.Errorf("%w: critical extensions are not supported", errMalformed)
	}
	for name, into := range map[string]*string{"alg": &t.algorithm, "kid": &t.keyID} {
		if said, ok := header[name]; ok {
			if err := json.Unmarshal(said, into); err != nil {
				return nil, fmt.Errorf("%w: %s: %w", errMalformed, name, err)
			}
		}
	}
	if err := t.claims.read("iss", &t.issuer); err != nil {
		return nil, fmt.Errorf("%w: iss: %w", errMalformed, err)
	}
	if t.issuer == "accounts.google.com" { // as Google wrote it once; OpenID Connect Core has an exception for it
		t.issuer = "https://accounts.google.com"
	}
	return t, nil
}

func decode(part string, into any) error {
	text, err := base64.RawURLEncoding.DecodeString(part)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errMalformed, err)
	}
	return nil
}

// notBeforeLeeway is how far the issuer's clock may be ahead.
const notBeforeLeeway = time.Minute

// check looks whether a token is meant for one of the audiences, in time, and signed in a way that is allowed. It
// returns when it expires.
func (t *token) check(audiences, algorithms []string, now time.Time) (until time.Time, err error) {
	meant, err := t.audiences()
	if err != nil {
		return until, err
	}
	if !slices.ContainsFunc(meant, func(a string) bool { return slices.Contains(audiences, a) }) {
		return until, fmt.Errorf("oidc: expected audience in %q got %q", audiences, meant)
	}
	until, _, err = t.moment("exp")
	switch {
	case err != nil:
		return until, err
	case until.Before(now):
		return until, fmt.Errorf("oidc: token is expired (Token Expiry: %v)", until)
	}
	from, said, err := t.moment("nbf")
	switch {
	case err != nil:
		return until, err
	case said && now.Add(notBeforeLeeway).Before(from):
		return until, fmt.Errorf("oidc: current time %v before the nbf (not before) time: %v", now, from)
	case !slices.Contains(algorithms, t.algorithm):
		return until, fmt.Errorf("oidc: id token signed with unsupported algorithm, expected %q got %q", algorithms, t.algorithm)
	}
	return until, nil
}

// audiences are whom the token is meant for.
func (t *token) audiences() ([]string, error) {
	if _, there := t.claims["aud"]; !there {
		return nil, nil
	}
	all, err := t.claims.texts("aud")
	if err != nil {
		return nil, fmt.Errorf("oidc: failed to unmarshal claims: aud: %w", err)
	}
	return all, nil
}

// moment is a time that a claim says in seconds since 1970. Without the claim it is the zero time.
func (t *token) moment(name string) (at time.Time, said bool, err error) {
	if _, there := t.claims[name]; !there {
		return at, false, nil
	}
	var seconds float64
	if err := t.claims.read(name, &seconds); err != nil {
		return at, false, fmt.Errorf("oidc: failed to unmarshal claims: %s: %w", name, err)
	}
	return time.Unix(int64(math.Max(-latest, math.Min(latest, seconds))), 0), true, nil
}

// latest bounds times, so that comparing them makes sense.
const latest = 1 << 40
