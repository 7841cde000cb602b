package auth

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Authenticator finds out who sent a request. ErrUnauthorized, wrapped, is a wrong proof; any other error says that it
// could not be found out, and that it is worth trying again.
type Authenticator interface {
	Authenticate(*http.Request) (User, error)
}

// Holder is whom a token belongs to.
type Holder struct {
	User User
	// Audiences are those among the ones asked for that the token is meant for.
	Audiences []string
}

// Tokens knows the holders of bearer tokens. A source that does not know a token answers ErrUnknownToken, and the next
// source is asked; ErrUnauthorized, wrapped, says that the token is its own and is not to be believed.
type Tokens interface {
	// Holder finds whom a token belongs to, if it is meant for one of the audiences; none are those of the API server.
	Holder(ctx context.Context, token string, audiences []string) (Holder, error)
}

var (
	// ErrUnauthorized is what a wrong proof comes to.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrUnknownToken says that a token is none of a source's own.
	ErrUnknownToken = errors.New("unknown token")
	// ErrBusy says that too many other tokens are being checked.
	ErrBusy = errors.New("too many tokens are being checked")
)

// addressKey is the context's key for the address of a client.
type addressKey struct{}

// AddressFrom is the address of the client whose token is being checked; empty if it is not that of a client.
func AddressFrom(ctx context.Context) string {
	address, _ := ctx.Value(addressKey{}).(string)
	return address
}

// withAddress adds the address of the client to the request's context.
func withAddress(r *http.Request) context.Context {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.Context()
	}
	return context.WithValue(r.Context(), addressKey{}, host)
}

// Sources are sources of tokens, which are asked in order.
type Sources []Tokens

// Holder implements Tokens. One source that knows the token is enough, even if another could not be asked.
func (s Sources) Holder(ctx context.Context, token string, audiences []string) (Holder, error) {
	var unauthorized, failed error
	for _, one := range s {
		h, err := one.Holder(ctx, token, audiences)
		switch {
		case err == nil:
			return h, nil
		case errors.Is(err, ErrUnknownToken):
		case errors.Is(err, ErrUnauthorized):
			unauthorized = errors.Join(unauthorized, err)
		default:
			failed = errors.Join(failed, err)
		}
	}
	switch {
	case failed != nil:
		return Holder{}, failed
	case unauthorized != nil:
		return Holder{}, unauthorized
	}
	return Holder{}, ErrUnknownToken
}

// ForServer limits a source whose tokens say nothing of audiences to the audiences of the API server, as Kubernetes
// does: otherwise such a token would be confirmed for anything that somebody asks about.
type ForServer struct {
	Tokens    Tokens
	Audiences []string
}

// Holder implements Tokens. A token is unknown for other audiences.
func (f ForServer) Holder(ctx context.Context, token string, audiences []string) (Holder, error) {
	meant := f.Audiences
	if len(audiences) > 0 {
		meant = slices.DeleteFunc(slices.Clone(audiences), func(a string) bool { return !slices.Contains(f.Audiences, a) })
		if len(meant) == 0 {
			return Holder{}, ErrUnknownToken
		}
	}
	h, err := f.Tokens.Holder(ctx, token, meant)
	if err != nil {
		return Holder{}, err
	}
	h.Audiences = meant
	return h, nil
}

// Requests authenticates by client certificate, then by token.
type Requests struct {
	// Clients returns the authorities whose certificates are believed: another pool when they have changed.
	Clients func() *x509.CertPool
	Tokens  Tokens
	// Anonymous tells whether a request without a proof is served; nil serves all.
	Anonymous func(*http.Request) bool
	// Proxy believes front proxies; nil believes none. They are asked first.
	Proxy *FrontProxy
	Now   func() time.Time

	verified verified
}

// Authenticate implements Authenticator.
func (re *Requests) Authenticate(r *http.Request) (User, error) {
	var wrong error
	if re.Proxy != nil {
		u, ok, err := re.Proxy.Authenticate(r, re.now())
		if ok {
			return u, nil
		}
		wrong = err
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		u, err := re.certificate(r.TLS.PeerCertificates)
		if err == nil {
			return u, nil
		}
		wrong = errors.Join(wrong, err)
	}
	if token, given := Bearer(r); given {
		u, err := re.token(withAddress(r), token)
		switch {
		case err == nil:
			return u, nil
		case errors.Is(err, ErrUnauthorized):
			wrong = errors.Join(wrong, err)
		default:
			return User{}, err
		}
	}
	switch {
	case wrong != nil:
		return User{}, wrong
	case re.Anonymous != nil && !re.Anonymous(r):
		return User{}, ErrUnauthorized
	}
	return User{Name: Anonymous, Groups: []string{Unauthenticated}}, nil
}

func (re *Requests) token(ctx context.Context, token string) (User, error) {
	if re.Tokens == nil || token == "" {
		return User{}, ErrUnauthorized
	}
	h, err := re.Tokens.Holder(ctx, token, nil)
	if errors.Is(err, ErrUnknownToken) {
		return User{}, errors.Join(ErrUnauthorized, err)
	}
	h.User.Groups = WithAuthenticated(h.User.Groups)
	return h.User, err
}

// WithAuthenticated adds the group of all who have proved who they are.
func WithAuthenticated(groups []string) []string {
	for _, g := range groups {
		if g == Authenticated {
			return groups
		}
	}
	return append(append([]string(nil), groups...), Authenticated)
}

// Bearer reads the token of the Authorization header, or of the protocol list of a WebSocket from a browser.
func Bearer(r *http.Request) (token string, given bool) {
	kind, token, _ := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	if strings.EqualFold(kind, "Bearer") {
		return strings.TrimSpace(token), true
	}
	return socketToken(r)
}

const (
	// socketProtocol is how a browser, which cannot set headers there, hands over a token.
	socketProtocol  = "base64url.bearer.authorization.k8s.io."
	socketProtocols = "Sec-Websocket-Protocol"
)

func socketToken(r *http.Request) (token string, given bool) {
	for _, line := range r.Header[socketProtocols] {
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

// Forget is a request without its credentials, so that nothing behind can hand them on: the request itself if it has
// none.
func Forget(r *http.Request) *http.Request {
	_, authorization := r.Header["Authorization"]
	_, socket := socketToken(r)
	if !authorization && !socket {
		return r
	}
	without := *r
	without.Header = r.Header.Clone()
	without.Header.Del("Authorization")
	without.Header.Del(socketProtocols)
	for _, line := range r.Header[socketProtocols] {
		if kept := withoutToken(line); kept != "" {
			without.Header.Add(socketProtocols, kept)
		}
	}
	return &without
}

func withoutToken(line string) string {
	var kept []string
	for p := range strings.SplitSeq(line, ",") {
		if p = strings.TrimSpace(p); p != "" && !strings.HasPrefix(p, socketProtocol) {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, ", ")
}

// Trusted believes a user that the request's context names: requests from inside the process, which nothing from
// outside can make. All others are asked.
type Trusted struct{ Others Authenticator }

// Authenticate implements Authenticator.
func (t Trusted) Authenticate(r *http.Request) (User, error) {
	if u := UserFrom(r.Context()); u.Name != "" {
		return u, nil
	}
	return t.Others.Authenticate(r)
}
