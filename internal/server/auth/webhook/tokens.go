package webhook

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/review"
	"github.com/millrace/millrace/internal/server/auth"
)

// Tokens asks a webhook who holds a token. It is an auth.Tokens.
type Tokens struct {
	client    *review.Client
	version   string
	audiences []string
	keep      time.Duration
	cache     review.Cache[authenticationv1.TokenReviewStatus]
	questions questions
}

// TokenOptions say whom to ask. ConfigFile, a kubeconfig, is needed.
type TokenOptions struct {
	ConfigFile string
	// Version is of authentication.k8s.io: v1 or v1beta1 (the default, as in kube-apiserver).
	Version string
	// Audiences are the API server's, for requests that name none.
	Audiences []string
	// Keep is how long an answer is kept: two minutes by default, less than 0 not at all.
	Keep time.Duration
	// Most is how many requests may wait for answers at a time: 300 by default. One address may have a third of them.
	Most int
}

// NewTokens makes a source of tokens. It asks nobody yet.
func NewTokens(o TokenOptions) (*Tokens, error) {
	c, err := review.New(review.Options{ConfigFile: o.ConfigFile})
	if err != nil {
		return nil, fmt.Errorf("token webhook: %w", err)
	}
	most := cmp.Or(o.Most, 300)
	t := &Tokens{
		client: c, version: o.Version, audiences: o.Audiences, keep: o.Keep, questions: questions{all: most, each: max(most/3, 1)},
	}
	if t.keep == 0 {
		t.keep = 2 * time.Minute
	}
	switch t.version {
	case "":
		t.version = "v1beta1"
	case "v1", "v1beta1":
	default:
		return nil, fmt.Errorf("token webhook: version %q is neither v1 nor v1beta1", o.Version)
	}
	return t, nil
}

// Holder implements auth.Tokens.
func (t *Tokens) Holder(ctx context.Context, token string, audiences []string) (auth.Holder, error) {
	if len(audiences) == 0 {
		audiences = t.audiences
	}
	k := review.Key(sha256.Sum256([]byte(token + "\x00" + strings.Join(audiences, "\x00"))))
	s, err := t.status(ctx, k, func(ctx context.Context) (authenticationv1.TokenReviewStatus, time.Duration, error) {
		s, err := t.ask(ctx, token, audiences)
		return s, t.keep, err
	})
	if err != nil {
		return auth.Holder{}, fmt.Errorf("token webhook: %w", err)
	}
	if !s.Authenticated || s.User.Username == "" {
		return auth.Holder{}, auth.ErrUnknownToken
	}
	h := auth.Holder{User: auth.User{Name: s.User.Username, UID: s.User.UID, Groups: s.User.Groups}}
	for name, values := range s.User.Extra {
		if h.User.Extra == nil {
			h.User.Extra = map[string][]string{}
		}
		h.User.Extra[name] = values
	}
	// A webhook that says nothing of audiences knows none: the token is for the API server alone.
	meant := s.Audiences
	if len(meant) == 0 {
		meant = t.audiences
	}
	for _, a := range audiences {
		if slices.Contains(meant, a) {
			h.Audiences = append(h.Audiences, a)
		}
	}
	if len(audiences) > 0 && len(h.Audiences) == 0 {
		return auth.Holder{}, auth.ErrUnknownToken
	}
	return h, nil
}

// status is a kept answer, or a new one if not too many are being waited for.
func (t *Tokens) status(
	ctx context.Context, k review.Key, ask func(context.Context) (authenticationv1.TokenReviewStatus, time.Duration, error),
) (authenticationv1.TokenReviewStatus, error) {
	if s, ok := t.cache.Kept(k); ok {
		return s, nil
	}
	address := auth.AddressFrom(ctx)
	if !t.questions.begin(address) {
		return authenticationv1.TokenReviewStatus{}, auth.ErrBusy
	}
	defer t.questions.end(address)
	return t.cache.Get(ctx, k, ask)
}

func (t *Tokens) ask(ctx context.Context, token string, audiences []string) (authenticationv1.TokenReviewStatus, error) {
	r := authenticationv1.TokenReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/" + t.version, Kind: "TokenReview"},
		Spec:     authenticationv1.TokenReviewSpec{Token: token, Audiences: audiences},
	}
	var answer authenticationv1.TokenReview
	if err := t.client.Ask(ctx, &r, &answer); err != nil {
		return authenticationv1.TokenReviewStatus{}, err
	}
	return answer.Status, nil
}
