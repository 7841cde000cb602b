package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
)

const (
	// Answers of the API server are kept for these times by default, as in Kubernetes.
	keepUser, keepAllowed, keepRefused = 2 * time.Minute, 5 * time.Minute, 30 * time.Second
	// mostKept bounds the users, and the permissions, that are kept.
	mostKept = 4096
	// reviewTimeout bounds a question, and mostAsked how many are asked at a time: strangers, each with a token of its
	// own, must not make a node flood the API server.
	reviewTimeout = 10 * time.Second
	mostAsked     = 16
)

// Reviewer is how a Server asks the API server who its clients are, and what they may do. Kube and Node are required.
type Reviewer struct {
	Kube kubernetes.Interface
	// Node returns the name of the node that a request is for.
	Node func(*http.Request) string
	// As returns the context for a node's requests. Nil uses the given context.
	As func(ctx context.Context, node string) context.Context
}

// reviews keep the answers of the API server for a while.
type reviews struct {
	Reviewer
	policy             Policy
	users, permissions *cache.LRUExpireCache
	asking             chan struct{} // has one for each question
}

func newReviews(r Reviewer, p Policy) *reviews {
	p.KeepUser, p.KeepAllowed, p.KeepRefused = cmp.Or(p.KeepUser, keepUser), cmp.Or(p.KeepAllowed, keepAllowed), cmp.Or(p.KeepRefused, keepRefused)
	return &reviews{r, p, cache.NewLRUExpireCache(mostKept), cache.NewLRUExpireCache(mostKept), make(chan struct{}, mostAsked)}
}

// errUnauthorized means that nobody knows the client.
var errUnauthorized = errors.New("Unauthorized")

// ask calls a question about a request when it is its turn.
func (v *reviews) ask(r *http.Request, question func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	select {
	case v.asking <- struct{}{}:
		defer func() { <-v.asking }()
	case <-ctx.Done():
		return fmt.Errorf("wait for a turn to ask the API server: %w", ctx.Err())
	}
	if v.As != nil {
		ctx = v.As(ctx, v.Node(r))
	}
	return question(ctx)
}

// owner returns whose a token is.
func (v *reviews) owner(r *http.Request, token string) (u authenticationv1.UserInfo, err error) {
	key := sha256.Sum256([]byte(token))
	if known, ok := v.users.Get(key); ok {
		return checked(known.(authenticationv1.TokenReviewStatus))
	}
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	err = v.ask(r, func(ctx context.Context) (err error) {
		review, err = v.Kube.AuthenticationV1().TokenReviews().Create(ctx, review, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return u, err
	}
	v.users.Add(key, review.Status, v.policy.KeepUser)
	return checked(review.Status)
}

func checked(s authenticationv1.TokenReviewStatus) (authenticationv1.UserInfo, error) {
	if !s.Authenticated {
		return authenticationv1.UserInfo{}, errUnauthorized
	}
	return s.User, nil
}

// allows reports whether a user may do something with a subresource of a node.
func (v *reviews) allows(r *http.Request, u authenticationv1.UserInfo, verb, subresource string) (bool, error) {
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: u.Username, Groups: u.Groups, UID: u.UID,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Version: "v1", Resource: "nodes", Subresource: subresource, Name: v.Node(r)},
	}
	if len(u.Extra) > 0 {
		spec.Extra = map[string]authorizationv1.ExtraValue{}
		for k, values := range u.Extra {
			spec.Extra[k] = authorizationv1.ExtraValue(values)
		}
	}
	text, err := spec.Marshal()
	if err != nil {
		return false, err
	}
	key := sha256.Sum256(text)
	if allowed, ok := v.permissions.Get(key); ok {
		return allowed.(bool), nil
	}
	review := &authorizationv1.SubjectAccessReview{Spec: spec}
	err = v.ask(r, func(ctx context.Context) (err error) {
		review, err = v.Kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return false, err
	}
	keep := v.policy.KeepRefused
	if review.Status.Allowed {
		keep = v.policy.KeepAllowed
	}
	v.permissions.Add(key, review.Status.Allowed, keep)
	return review.Status.Allowed, nil
}

// verbOf returns the verb that a request needs. Commands, terminals and ports need "create", also if a WebSocket asks
// for them by GET: who may read a node must not run anything on it. (Kubernetes' kubelet asks for "get" then.)
func verbOf(r *http.Request) string {
	for _, path := range []string{"/exec", "/run", "/attach", "/portForward"} {
		if below(r.URL.Path, path) {
			return "create"
		}
	}
	return map[string]string{http.MethodPost: "create", http.MethodGet: "get", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete"}[r.Method]
}

// subresourcesOf returns the subresources of a node, any of which permits a request to a path.
func subresourcesOf(path string) []string {
	for _, one := range []struct {
		path         string
		subresources []string
	}{
		{"/pods", []string{"pods", "proxy"}}, {"/runningpods", []string{"pods", "proxy"}}, {"/configz", []string{"configz", "proxy"}},
		{"/stats", []string{"stats"}}, {"/metrics", []string{"metrics"}}, {"/logs", []string{"log"}},
	} {
		if below(path, one.path) {
			return one.subresources
		}
	}
	return []string{"proxy"}
}

func below(path, directory string) bool {
	rest, ok := strings.CutPrefix(path, directory)
	return ok && (rest == "" || rest[0] == '/')
}
