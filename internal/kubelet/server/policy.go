package server

import (
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// Policy is how clients are treated that may not do everything by their name. The zero value asks the API server about
// all of them, and refuses those without credentials.
type Policy struct {
	// Anonymous takes requests without credentials as those of system:anonymous.
	Anonymous bool
	// NoTokens does not ask whose tokens are.
	NoTokens bool
	// AllowAll does not ask what clients may do.
	AllowAll bool
	// KeepUser, KeepAllowed and KeepRefused are how long answers of the API server are used: Kubernetes' times by
	// default.
	KeepUser, KeepAllowed, KeepRefused time.Duration
}

// certified returns the common name of a client with a verified certificate.
func certified(r *http.Request) (name string, ok bool) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return "", false
	}
	return r.TLS.PeerCertificates[0].Subject.CommonName, true
}

// user returns who sends a request: the subject of a verified certificate, or the one whose token it has.
func (s *Server) user(r *http.Request) (authenticationv1.UserInfo, error) {
	if name, ok := certified(r); ok {
		groups := r.TLS.PeerCertificates[0].Subject.Organization
		return authenticationv1.UserInfo{Username: name, Groups: append(groups[:len(groups):len(groups)], "system:authenticated")}, nil
	}
	if token := tokenOf(r); token != "" && s.reviews != nil && !s.Policy.NoTokens {
		return s.reviews.owner(r, token)
	}
	if s.Policy.Anonymous {
		return authenticationv1.UserInfo{Username: "system:anonymous", Groups: []string{"system:unauthenticated"}}, nil
	}
	return authenticationv1.UserInfo{}, errUnauthorized
}

func tokenOf(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
