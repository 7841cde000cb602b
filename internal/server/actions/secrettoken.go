package actions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

const (
	secretIssuer = "kubernetes/serviceaccount"
	// lastUsed and invalidSince are labels with days. Clients that clean up write the second one.
	lastUsed     = "kubernetes.io/legacy-token-last-used"
	invalidSince = "kubernetes.io/legacy-token-invalid-since"
)

// SecretTokens authenticates service account tokens that are kept in secrets and never expire. A token is believed as
// long as its secret has it, its account exists, and the secret is not labelled as invalid. The day of the last attempt
// to use it is recorded in a label.
type SecretTokens struct {
	// Issuer has the keys of the tokens.
	Issuer *Issuer
	Logger *slog.Logger

	mu       sync.Mutex              // guards recorded
	recorded map[types.UID]recording // by the secret
}

// recording is the day that was recorded for a secret. If that has failed, it is tried again later.
type recording struct {
	day   string
	again time.Time
}

// secretClaims are those of a token in a secret.
type secretClaims struct {
	jwt.RegisteredClaims
	Namespace string `json:"kubernetes.io/serviceaccount/namespace"`
	Secret    string `json:"kubernetes.io/serviceaccount/secret.name"`
	Account   string `json:"kubernetes.io/serviceaccount/service-account.name"`
	UID       string `json:"kubernetes.io/serviceaccount/service-account.uid"`
}

var (
	errIncomplete  = errors.New("the token does not name its service account and its secret")
	errRemoved     = errors.New("the token was removed from its secret")
	errInvalidated = errors.New("the token's secret is labelled as invalid: use tokens from the TokenRequest API or, for a while, remove the label " + invalidSince)
)

// Holder implements auth.Tokens. These tokens say nothing of audiences; auth.ForServer limits them to the API server's.
func (t *SecretTokens) Holder(ctx context.Context, token string, _ []string) (auth.Holder, error) {
	said, err := t.read(token)
	if err != nil {
		return auth.Holder{}, err
	}
	if err := t.check(ctx, said, token); err != nil {
		return auth.Holder{}, err
	}
	return auth.Holder{User: auth.User{Name: auth.AccountName(said.Namespace, said.Account), UID: said.UID, Groups: auth.AccountGroups(said.Namespace)}}, nil
}

// read verifies a token's signature.
func (t *SecretTokens) read(token string) (*secretClaims, error) {
	if strings.Count(token, ".") != 2 {
		return nil, auth.ErrUnknownToken
	}
	said := &secretClaims{}
	if _, _, err := jwt.NewParser().ParseUnverified(token, said); err != nil || said.Issuer != secretIssuer {
		return nil, auth.ErrUnknownToken
	}
	said = &secretClaims{}
	parser := jwt.NewParser(jwt.WithValidMethods(t.Issuer.algorithms()), jwt.WithIssuer(secretIssuer), jwt.WithTimeFunc(t.Issuer.o.Now))
	if _, err := parser.ParseWithClaims(token, said, t.Issuer.keysOf); err != nil {
		return nil, fmt.Errorf("%w: %w", auth.ErrUnauthorized, err)
	}
	complete := said.Namespace != "" && said.Secret != "" && said.Account != "" && said.UID != ""
	if !complete || said.Subject != auth.AccountName(said.Namespace, said.Account) {
		return nil, fmt.Errorf("%w: %w", auth.ErrUnauthorized, errIncomplete)
	}
	return said, nil
}

// check checks that the token's secret and account exist, and records its use.
func (t *SecretTokens) check(ctx context.Context, said *secretClaims, token string) error {
	refuse := func(err error) error {
		return fmt.Errorf("%w: the token of service account %s/%s in secret %s: %w", auth.ErrUnauthorized, said.Namespace, said.Account, said.Secret, err)
	}
	o, err := t.Issuer.object(ctx, "secrets", said.Namespace, said.Secret)
	if err != nil {
		if apierrors.IsNotFound(err) {
			return refuse(err)
		}
		return fmt.Errorf("look for the token's secret: %w", err)
	}
	s := o.(*corev1.Secret)
	if s.DeletionTimestamp != nil || !bytes.Equal(s.Data[corev1.ServiceAccountTokenKey], []byte(token)) {
		return refuse(errRemoved)
	}
	account := &bound{Namespace: said.Namespace, ServiceAccount: reference{said.Account, said.UID}}
	if err := t.Issuer.checkBound(ctx, account); err != nil {
		return err
	}
	t.record(ctx, s)
	if s.Labels[invalidSince] != "" {
		return refuse(errInvalidated)
	}
	return nil
}

const (
	recordTime  = 5 * time.Second // for which a request waits until the use of its token is recorded
	recordAgain = time.Minute     // after a failure
)

// record labels a secret with the current day, once a day. That it fails is no reason to refuse the token.
func (t *SecretTokens) record(ctx context.Context, s *corev1.Secret) {
	now := t.Issuer.o.Now()
	day := now.UTC().Format(time.DateOnly)
	if s.Labels[lastUsed] == day || !t.first(s.UID, day, now) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	if err := t.label(ctx, s, day); err != nil && !apierrors.IsNotFound(err) {
		t.Logger.Warn("the use of a service account's token cannot be recorded", "namespace", s.Namespace, "secret", s.Name, "error", err)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.recorded[s.UID] = recording{again: now.Add(recordAgain)}
	}
}

// first reports whether the caller is the one that records the day for a secret.
func (t *SecretTokens) first(secret types.UID, day string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last := t.recorded[secret]; last.day == day || now.Before(last.again) {
		return false
	}
	if t.recorded == nil || len(t.recorded) >= maxVerified {
		t.recorded = map[types.UID]recording{}
	}
	t.recorded[secret] = recording{day: day}
	return true
}

func (t *SecretTokens) label(ctx context.Context, s *corev1.Secret, day string) error {
	r := t.Issuer.o.Registry
	kind, ok := r.Catalogue.Kind(schema.GroupResource{Resource: "secrets"})
	if !ok {
		return errors.New("there are no secrets")
	}
	storage, err := r.Storage(kind)
	if err != nil {
		return err
	}
	_, _, err = storage.Update(ctx, s.Namespace, s.Name, func(_ context.Context, old resource.Object) (resource.Object, error) {
		if old.GetUID() != s.UID {
			return old, nil // another secret of that name
		}
		changed := old.DeepCopyObject().(*corev1.Secret)
		metav1.SetMetaDataLabel(&changed.ObjectMeta, lastUsed, day)
		return changed, nil
	}, registry.UpdateOptions{WriteOptions: registry.WriteOptions{Manager: "kube-apiserver"}})
	return err
}
