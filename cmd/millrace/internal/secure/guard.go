package secure

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	anonymous       = "system:anonymous"
	authenticated   = "system:authenticated"
	unauthenticated = "system:unauthenticated"
)

var errUnauthorized = errors.New("unauthorized")

// guard lets a request pass if its client is authorized for the path.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.open(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		who, err := s.identify(r)
		if errors.Is(err, errUnauthorized) {
			refuse(w, apierrors.NewUnauthorized("Unauthorized"))
			return
		}
		allowed := false
		if err == nil {
			allowed, err = s.allowed(r.Context(), who, strings.ToLower(r.Method), r.URL.Path)
		}
		switch {
		case err != nil:
			s.o.Logger.Warn("client cannot be authorized", "path", r.URL.Path, "err", err)
			refuse(w, apierrors.NewInternalError(err))
		case !allowed:
			refuse(w, forbidden(who, r))
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// open reports whether a path needs no authorization.
func (s *Server) open(path string) bool {
	return slices.ContainsFunc(s.o.Open, func(p string) bool {
		below, all := strings.CutSuffix(p, "*")
		return p == path || all && strings.HasPrefix(path, below)
	})
}

// identify authenticates the client.
func (s *Server) identify(r *http.Request) (Who, error) {
	var claimed error // somebody who is no proxy says that he is one
	if s.o.Front != nil {
		var who Who
		var ok bool
		if who, ok, claimed = s.o.Front(r); ok {
			return who, nil
		}
	}
	if s.o.Clients != nil && r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		leaf, others := r.TLS.PeerCertificates[0], x509.NewCertPool()
		for _, c := range r.TLS.PeerCertificates[1:] {
			others.AddCert(c)
		}
		_, err := leaf.Verify(x509.VerifyOptions{
			Roots: s.o.Clients, Intermediates: others, CurrentTime: s.o.Now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		})
		if err != nil || leaf.Subject.CommonName == "" {
			return Who{}, errUnauthorized
		}
		return Who{Name: leaf.Subject.CommonName, Groups: append(slices.Clone(leaf.Subject.Organization), authenticated)}, nil
	}
	kind, token, _ := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	if !strings.EqualFold(kind, "Bearer") {
		if claimed != nil {
			return Who{}, errUnauthorized
		}
		return Who{Name: anonymous, Groups: []string{unauthenticated}}, nil
	}
	keep := func(Who) time.Duration { return s.o.TokensFor }
	return s.who.get(s.o.Now(), sum(token), keep, func() (Who, error) { return s.review(r.Context(), strings.TrimSpace(token)) })
}

// sum hashes secrets, so that they are not kept in memory.
func sum(words ...string) [sha256.Size]byte {
	return sha256.Sum256([]byte(strings.Join(words, "\x00")))
}

// review authenticates a token with a TokenReview.
func (s *Server) review(ctx context.Context, token string) (Who, error) {
	if s.o.Kube == nil || token == "" {
		return Who{}, errUnauthorized
	}
	answer, err := s.o.Kube.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return Who{}, fmt.Errorf("create a TokenReview: %w", err)
	}
	if !answer.Status.Authenticated {
		return Who{}, errUnauthorized
	}
	u := answer.Status.User
	who := Who{Name: u.Username, UID: u.UID, Groups: u.Groups, Extra: map[string][]string{}}
	for name, values := range u.Extra {
		who.Extra[name] = values
	}
	return who, nil
}

// allowed authorizes a request with a SubjectAccessReview. Members of system:masters are always allowed.
func (s *Server) allowed(ctx context.Context, who Who, verb, path string) (bool, error) {
	if slices.Contains(who.Groups, "system:masters") {
		return true, nil
	}
	if s.o.Access == nil {
		return false, nil
	}
	extra := map[string]authorizationv1.ExtraValue{}
	for name, values := range who.Extra {
		extra[name] = values
	}
	keep := func(allowed bool) time.Duration {
		if allowed {
			return s.o.AllowedFor
		}
		return s.o.DeniedFor
	}
	at := sum(append([]string{verb, path, who.Name, who.UID, fmt.Sprint(who.Extra)}, who.Groups...)...)
	return s.may.get(s.o.Now(), at, keep, func() (bool, error) {
		answer, err := s.o.Access.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: who.Name, UID: who.UID, Groups: who.Groups, Extra: extra,
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: verb, Path: path},
		}}, metav1.CreateOptions{})
		if err != nil {
			return false, fmt.Errorf("create a SubjectAccessReview for %s: %w", who.Name, err)
		}
		return answer.Status.Allowed, nil
	})
}

func forbidden(who Who, r *http.Request) *apierrors.StatusError {
	e := apierrors.NewForbidden(metav1.Unversioned.WithResource("").GroupResource(), "", nil)
	e.ErrStatus.Message = fmt.Sprintf("forbidden: User %q cannot %s path %q", who.Name, strings.ToLower(r.Method), r.URL.Path)
	e.ErrStatus.Details = &metav1.StatusDetails{}
	return e
}

func refuse(w http.ResponseWriter, e *apierrors.StatusError) {
	e.ErrStatus.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(int(e.ErrStatus.Code))
	_ = json.NewEncoder(w).Encode(e.ErrStatus) // an error means that the client has disconnected
}
