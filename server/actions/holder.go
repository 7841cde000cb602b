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

	"github.com/millrace/millrace/server/auth"
)

// Holder implements auth.Tokens: the token must be ours, in time and meant for one of the audiences, and what it is bound
// to must still be there.
func (i *Issuer) Holder(ctx context.Context, token string, audiences []string) (auth.Holder, error) {
	set, err := i.read(token)
	if err != nil {
		return auth.Holder{}, err
	}
	if len(audiences) == 0 {
		audiences = []string{i.Name}
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

// read checks who has issued a token and whether it is in time.
func (i *Issuer) read(token string) (*claims, error) {
	now := i.Now()
	if set, ok := i.believed.find(token, now); ok {
		return set, nil
	}
	if strings.Count(token, ".") != 2 {
		return nil, auth.ErrUnknownToken
	}
	var said claims
	if _, _, err := jwt.NewParser().ParseUnverified(token, &said); err != nil || said.Issuer != i.Name {
		return nil, auth.ErrUnknownToken
	}
	set := &claims{}
	parser := jwt.NewParser(jwt.WithValidMethods([]string{signing.Alg()}), jwt.WithIssuer(i.Name), jwt.WithTimeFunc(i.Now), jwt.WithExpirationRequired())
	if _, err := parser.ParseWithClaims(token, set, func(*jwt.Token) (any, error) { return i.Key.Public(), nil }); err != nil {
		return nil, fmt.Errorf("%w: %w", auth.ErrUnauthorized, err)
	}
	i.believed.keep(token, set)
	return set, nil
}

// deletionLeeway is how long a token is good after the time at which what it is bound to should have gone.
const deletionLeeway = time.Minute

// checkBound looks whether what a token is bound to is there. The node of a pod's token only says where the pod is.
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
		case o.GetDeletionTimestamp() != nil && o.GetDeletionTimestamp().Add(deletionLeeway).Before(i.Now()):
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
		Extra: map[string][]string{"authentication.kubernetes.io/credential-id": {"JTI=" + id}},
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

// mostBelieved bounds how many tokens are remembered.
const mostBelieved = 4096

// believed remembers tokens whose signature was right, by their hash: to check it takes 60 µs. What they are bound to is
// looked at each time.
type believed struct {
	mu     sync.RWMutex // guards tokens
	tokens map[[sha256.Size]byte]*claims
}

func (b *believed) find(token string, now time.Time) (*claims, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	set, ok := b.tokens[sha256.Sum256([]byte(token))]
	if !ok || !now.Before(set.ExpiresAt.Time) || now.Before(set.NotBefore.Time) {
		return nil, false
	}
	return set, true
}

func (b *believed) keep(token string, set *claims) {
	if set.NotBefore == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tokens == nil || len(b.tokens) >= mostBelieved {
		b.tokens = map[[sha256.Size]byte]*claims{}
	}
	b.tokens[sha256.Sum256([]byte(token))] = set
}
