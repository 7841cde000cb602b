package actions

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/internal/server/auth"
)

// Holder implements auth.Tokens. The token must be signed by this issuer, unexpired and meant for one of the audiences,
// and the objects to which it is bound must still exist.
func (i *Issuer) Holder(ctx context.Context, token string, audiences []string) (auth.Holder, error) {
	set, err := i.read(token)
	if err != nil {
		return auth.Holder{}, err
	}
	if len(audiences) == 0 {
		audiences = i.o.Audiences
	}
	meant := slices.DeleteFunc(slices.Clone(audiences), func(a string) bool { return !slices.Contains(set.Audience, a) })
	if len(meant) == 0 {
		return auth.Holder{}, fmt.Errorf("%w: the token is meant for %q", auth.ErrUnauthorized, []string(set.Audience))
	}
	if err := i.checkBound(ctx, &set.Kubernetes); err != nil {
		return auth.Holder{}, err
	}
	return auth.Holder{User: accountUser(set.Kubernetes, set.ID), Audiences: meant}, nil
}

// read verifies a token's signature, issuer and times.
func (i *Issuer) read(token string) (*claims, error) {
	now := i.o.Now()
	if set, ok := i.verifiedTokens.find(token, now); ok {
		return set, nil
	}
	if strings.Count(token, ".") != 2 {
		return nil, auth.ErrUnknownToken
	}
	var said claims
	if _, _, err := jwt.NewParser().ParseUnverified(token, &said); err != nil || !slices.Contains(i.o.Names, said.Issuer) {
		return nil, auth.ErrUnknownToken
	}
	set := &claims{}
	parser := jwt.NewParser(jwt.WithValidMethods(i.algorithms()), jwt.WithIssuer(said.Issuer), jwt.WithTimeFunc(i.o.Now), jwt.WithExpirationRequired())
	if _, err := parser.ParseWithClaims(token, set, i.keysOf); err != nil {
		return nil, fmt.Errorf("%w: %w", auth.ErrUnauthorized, err)
	}
	i.verifiedTokens.keep(token, set)
	return set, nil
}

// deletionLeeway is how long a token stays valid after the deletion time of an object to which it is bound.
const deletionLeeway = time.Minute

// checkBound checks that the objects to which a token is bound exist. The node of a pod's token is not checked: it only
// says where the pod is.
func (i *Issuer) checkBound(ctx context.Context, k *bound) error {
	node := k.Node
	if k.Pod != nil {
		node = nil
	}
	for _, held := range []struct {
		resource string
		ref      *reference
	}{{"serviceaccounts", &k.ServiceAccount}, {"pods", k.Pod}, {"secrets", k.Secret}, {"nodes", node}} {
		if held.ref == nil {
			continue
		}
		o, err := i.object(ctx, held.resource, k.Namespace, held.ref.Name)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return fmt.Errorf("look for what the token is bound to: %w", err)
		case string(o.GetUID()) != held.ref.UID:
			err = errReplaced
		case o.GetDeletionTimestamp() != nil && o.GetDeletionTimestamp().Add(deletionLeeway).Before(i.o.Now()):
			err = errDeleted
		}
		if err != nil {
			return fmt.Errorf("%w: the token is bound to %s %s: %w", auth.ErrUnauthorized, held.resource, held.ref.Name, err)
		}
	}
	return nil
}

var (
	errReplaced = errors.New("it has been replaced by another")
	errDeleted  = errors.New("it is being deleted")
)

func accountUser(k bound, id string) auth.User {
	u := auth.User{
		Name: auth.AccountName(k.Namespace, k.ServiceAccount.Name), UID: k.ServiceAccount.UID, Groups: auth.AccountGroups(k.Namespace),
		Extra: map[string][]string{auth.CredentialID: {"JTI=" + id}},
	}
	add := func(what string, ref *reference) {
		if ref == nil {
			return
		}
		u.Extra["authentication.kubernetes.io/"+what+"-name"] = []string{ref.Name}
		if ref.UID != "" {
			u.Extra["authentication.kubernetes.io/"+what+"-uid"] = []string{ref.UID}
		}
	}
	add("pod", k.Pod)
	add("node", k.Node)
	return u
}

// maxVerified bounds how many tokens are cached.
const maxVerified = 4096

// verifiedTokens caches tokens whose signature was valid, by their hash: verifying takes 60 µs. Bound objects are
// checked each time.
type verifiedTokens struct {
	mu     sync.RWMutex // guards tokens
	tokens map[[sha256.Size]byte]*claims
}

func (v *verifiedTokens) find(token string, now time.Time) (*claims, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	set, ok := v.tokens[sha256.Sum256([]byte(token))]
	if !ok || !now.Before(set.ExpiresAt.Time) || now.Before(set.NotBefore.Time) {
		return nil, false
	}
	return set, true
}

func (v *verifiedTokens) keep(token string, set *claims) {
	if set.NotBefore == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.tokens == nil || len(v.tokens) >= maxVerified {
		v.tokens = map[[sha256.Size]byte]*claims{}
	}
	v.tokens[sha256.Sum256([]byte(token))] = set
}
