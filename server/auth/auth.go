// Package auth finds out who calls and whether they may.
//
// A caller proves who it is with a client certificate of the cluster's authority, or with a bearer token. One good proof
// is enough, whatever else is shown. Who proves nothing is system:anonymous; who tries and fails is turned away and is not
// taken for anonymous.
package auth

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"time"
)

// User is who calls.
type User struct {
	Name   string
	UID    string
	Groups []string
	Extra  map[string][]string
}

// Names that Kubernetes gives.
const (
	Anonymous       = "system:anonymous"
	Unauthenticated = "system:unauthenticated"
	Authenticated   = "system:authenticated"
	Masters         = "system:masters"
)

// In tells whether the user is in a group.
func (u User) In(group string) bool {
	for _, g := range u.Groups {
		if g == group {
			return true
		}
	}
	return false
}

type userKey struct{}

// WithUser and UserFrom carry the caller in a context.
func WithUser(ctx context.Context, u User) context.Context {
	return context.WithValue(ctx, userKey{}, u)
}

// UserFrom returns the caller, or the zero User.
func UserFrom(ctx context.Context) User {
	u, _ := ctx.Value(userKey{}).(User)
	return u
}

// Authenticator finds out who sent a request.
type Authenticator interface {
	Authenticate(*http.Request) (User, error)
}

// Tokens knows the holders of bearer tokens. ok is false for a token it does not know.
type Tokens interface {
	Holder(ctx context.Context, token string) (u User, ok bool, err error)
}

// ErrUnauthorized is what a wrong proof comes to.
var ErrUnauthorized = errors.New("unauthorized")

// ErrImpersonation refuses to act for somebody else, which nothing can allow yet.
var ErrImpersonation = errors.New("impersonation is not supported")

// Requests authenticates by client certificate, then by token.
type Requests struct {
	// Clients returns the authorities whose certificates are believed: another pool when they have changed.
	Clients func() *x509.CertPool
	Tokens  []Tokens
	Now     func() time.Time

	verified verified
}

// Authenticate implements Authenticator.
func (a *Requests) Authenticate(r *http.Request) (User, error) {
	for name := range r.Header {
		if strings.HasPrefix(name, "Impersonate-") {
			return User{}, ErrImpersonation
		}
	}
	var failed error
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		u, err := a.certificate(r.TLS.PeerCertificates)
		if err == nil {
			return u, nil
		}
		failed = err
	}
	if token, given := bearer(r); given {
		u, err := a.token(r.Context(), token)
		if err == nil {
			return u, nil
		}
		failed = errors.Join(failed, err)
	}
	if failed != nil {
		return User{}, failed
	}
	return User{Name: Anonymous, Groups: []string{Unauthenticated}}, nil
}

func (a *Requests) token(ctx context.Context, token string) (User, error) {
	for _, t := range a.Tokens {
		u, ok, err := t.Holder(ctx, token)
		if err != nil {
			return User{}, errors.Join(ErrUnauthorized, err)
		}
		if ok {
			u.Groups = authenticated(u.Groups)
			return u, nil
		}
	}
	return User{}, ErrUnauthorized
}

func authenticated(groups []string) []string {
	return append(append([]string(nil), groups...), Authenticated)
}

// bearer reads the token of the Authorization header, or of the protocol list of a WebSocket from a browser.
func bearer(r *http.Request) (token string, given bool) {
	kind, token, _ := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	if strings.EqualFold(kind, "Bearer") {
		return strings.TrimSpace(token), true
	}
	return socketToken(r)
}

// socketProtocol is how a browser, which cannot set headers there, hands over a token.
const socketProtocol = "base64url.bearer.authorization.k8s.io."

func socketToken(r *http.Request) (token string, given bool) {
	for _, line := range r.Header.Values("Sec-Websocket-Protocol") {
		for p := range strings.SplitSeq(line, ",") {
			if text, ok := strings.CutPrefix(strings.TrimSpace(p), socketProtocol); ok {
				b, err := base64.RawURLEncoding.DecodeString(text)
				if err != nil {
					return "", true // and known to nobody
				}
				return string(b), true
			}
		}
	}
	return "", false
}

// Attributes are what a decision rests on.
type Attributes struct {
	User User
	Verb string
	// For resources.
	Group, Version, Resource, Subresource, Namespace, Name string
	IsResource                                             bool
	Path                                                   string
}

// Authorizer decides whether something may be done: nil means yes.
type Authorizer interface {
	Authorize(context.Context, Attributes) error
}

// ErrForbidden is a no.
var ErrForbidden = errors.New("forbidden")

// MastersOnly lets members of system:masters do everything, lets anybody look at health and version, and anybody who is
// somebody ask what they may do and who they are.
type MastersOnly struct{}

// Authorize implements Authorizer.
func (MastersOnly) Authorize(_ context.Context, a Attributes) error {
	switch {
	case a.User.In(Masters):
		return nil
	case !a.IsResource && a.Verb == "get" && public(a.Path):
		return nil
	case a.IsResource && a.User.In(Authenticated) && a.Verb == "create" && strings.HasPrefix(a.Resource, "selfsubject"):
		return nil
	}
	return ErrForbidden
}

func public(path string) bool {
	switch first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/"); first {
	case "healthz", "livez", "readyz":
		return true
	}
	return path == "/version" || path == "/version/"
}

// Trusted believes a caller that the request's context names: requests from inside the process, which nothing from
// outside can make. All others are asked.
type Trusted struct{ Others Authenticator }

// Authenticate implements Authenticator.
func (t Trusted) Authenticate(r *http.Request) (User, error) {
	if u := UserFrom(r.Context()); u.Name != "" {
		return u, nil
	}
	return t.Others.Authenticate(r)
}
