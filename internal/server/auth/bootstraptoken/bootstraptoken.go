// Package bootstraptoken believes the tokens by which new nodes join: secrets of the type bootstrap.kubernetes.io/token
// in kube-system, of which a token names one and tells its secret half.
//
// What is guaranteed: a token is believed from the moment its secret has been written on this server until the cache
// shows that it is deleted, expired or may not authenticate any more. How long a refusal takes does not tell how much
// of a secret was right.
package bootstraptoken

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/registry"
)

const (
	namespace  = "kube-system"
	namePrefix = "bootstrap-token-"
	userPrefix = "system:bootstrap:"
)

var token = regexp.MustCompile(`^([a-z0-9]{6})\.([a-z0-9]{16})$`)

// extraGroup is what isExtraGroup checks, as a regular expression: as such it would cost a program that starts a
// millisecond.
const extraGroup = `\A` + auth.BootstrapTokens + `:[a-z0-9:-]{0,255}[a-z0-9]\z`

// isExtraGroup reports whether a token may give its holder a group.
func isExtraGroup(group string) bool {
	rest, ok := strings.CutPrefix(group, auth.BootstrapTokens+":")
	if !ok || rest == "" || len(rest) > 256 || strings.HasSuffix(rest, ":") || strings.HasSuffix(rest, "-") {
		return false
	}
	return !strings.ContainsFunc(rest, func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != ':' && c != '-' })
}

// Tokens implements auth.Tokens.
type Tokens struct {
	Registry *registry.Registry
	// Now is the clock: time.Now by default.
	Now func() time.Time
}

// Holder implements auth.Tokens. Bootstrap tokens say nothing of audiences; auth.ForServer limits them to the API
// server's.
func (t *Tokens) Holder(ctx context.Context, text string, _ []string) (auth.Holder, error) {
	match := token.FindStringSubmatch(text)
	if match == nil {
		return auth.Holder{}, auth.ErrUnknownToken
	}
	id, proof := match[1], match[2]
	secret, err := t.secret(ctx, namePrefix+id)
	switch {
	case apierrors.IsNotFound(err):
		return auth.Holder{}, fmt.Errorf("bootstrap token %s: %w", id, auth.ErrUnknownToken)
	case err != nil:
		return auth.Holder{}, fmt.Errorf("bootstrap token %s: %w", id, err)
	}
	if err := t.check(secret, id, proof); err != nil {
		return auth.Holder{}, fmt.Errorf("bootstrap token %s: %w: %w", id, err, auth.ErrUnauthorized)
	}
	groups, err := groups(secret)
	if err != nil {
		return auth.Holder{}, fmt.Errorf("bootstrap token %s: %w: %w", id, err, auth.ErrUnauthorized)
	}
	return auth.Holder{User: auth.User{Name: userPrefix + id, Groups: groups}}, nil
}

// secret reads the secret of a token from the cache, which has what this server has written.
func (t *Tokens) secret(ctx context.Context, name string) (*corev1.Secret, error) {
	kind, ok := t.Registry.Catalogue.Kind(schema.GroupResource{Resource: "secrets"})
	if !ok {
		return nil, errors.New("there are no secrets")
	}
	storage, err := t.Registry.Storage(kind)
	if err != nil {
		return nil, err
	}
	wrote := storage.Wrote()
	cached, err := storage.Get(ctx, namespace, name, registry.Freshness{Revision: wrote, Any: wrote == 0})
	if err != nil {
		return nil, err
	}
	o, err := kind.Decode(ctx, cached.Value(), cached.Revision.String())
	if err != nil {
		return nil, err
	}
	return o.(*corev1.Secret), nil
}

// check is nil if the token is what its secret says, and still good.
func (t *Tokens) check(s *corev1.Secret, id, proof string) error {
	now := time.Now
	if t.Now != nil {
		now = t.Now
	}
	right := subtle.ConstantTimeCompare(s.Data["token-secret"], []byte(proof)) == 1
	switch end := string(s.Data["expiration"]); {
	case s.DeletionTimestamp != nil:
		return errors.New("is deleted")
	case s.Type != corev1.SecretTypeBootstrapToken:
		return errors.New("has a secret of another type")
	case string(s.Data["token-id"]) != id:
		return errors.New("has a secret of another name")
	case !right:
		return errors.New("is wrong")
	case end != "" && !before(now(), end):
		return errors.New("has expired")
	case string(s.Data["usage-bootstrap-authentication"]) != "true":
		return errors.New("may not be used to authenticate")
	}
	return nil
}

// before tells whether it is before a time as RFC 3339 writes it; what cannot be read is over.
func before(now time.Time, end string) bool {
	at, err := time.Parse(time.RFC3339, end)
	return err == nil && now.Before(at)
}

// groups are those of the one who holds a token. None may be given to it that is not a group of bootstrap tokens.
func groups(s *corev1.Secret) ([]string, error) {
	all := []string{auth.BootstrapTokens}
	if text := string(s.Data["auth-extra-groups"]); text != "" {
		for group := range strings.SplitSeq(text, ",") {
			if !isExtraGroup(group) {
				return nil, fmt.Errorf("bootstrap group %q is invalid (must match %s)", group, extraGroup)
			}
			all = append(all, group)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}
