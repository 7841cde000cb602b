package actions

import (
	"context"
	"crypto"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/apiserver"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// IssuerOptions configure an Issuer. Registry and Now are needed, and so are Key and Names.
type IssuerOptions struct {
	// Key signs tokens; Keys have public keys that verify tokens besides it, such as those of a key that was replaced.
	Key  crypto.Signer
	Keys []crypto.PublicKey
	// Names are the issuers of tokens: the first makes them, all are accepted.
	Names []string
	// Audiences are what tokens for this API server are meant for, and those whose request names no audience: the
	// names, if there are none.
	Audiences []string
	// MaxLife bounds how long tokens are valid; zero does not.
	MaxLife time.Duration
	// NoExtension says that tokens of pods expire when the kubelet renews them, not long after.
	NoExtension bool
	// KeysURI is where clients find the public keys; empty is this server.
	KeysURI  string
	Registry *registry.Registry
	Now      func() time.Time
}

// Issuer makes service account tokens and authenticates them.
type Issuer struct {
	o              IssuerOptions
	keys           []key // the first signs
	verifiedTokens verifiedTokens
}

// NewIssuer returns an Issuer.
func NewIssuer(o IssuerOptions) (*Issuer, error) {
	if len(o.Audiences) == 0 {
		o.Audiences = o.Names
	}
	i := &Issuer{o: o}
	for _, public := range append([]crypto.PublicKey{o.Key.Public()}, o.Keys...) {
		k, err := newKey(public)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(i.keys, func(other key) bool { return other.id == k.id }) {
			i.keys = append(i.keys, k)
		}
	}
	return i, nil
}

const (
	defaultLife  = time.Hour
	shortestLife = 10 * time.Minute
	longestLife  = 1 << 32 * time.Second
	// A pod's token with renewedLife, as the admission plugin ServiceAccount asks for, is valid for extendedLife:
	// programs that read it only at their start go on working, as in Kubernetes.
	renewedLife  = 3607 * time.Second
	extendedLife = 365 * 24 * time.Hour
)

// claims are those of a bound service account token.
type claims struct {
	jwt.RegisteredClaims
	Kubernetes bound `json:"kubernetes.io"`
}

type bound struct {
	Namespace      string     `json:"namespace"`
	ServiceAccount reference  `json:"serviceaccount"`
	Pod            *reference `json:"pod,omitempty"`
	Secret         *reference `json:"secret,omitempty"`
	Node           *reference `json:"node,omitempty"`
	// WarnAfter is when the token would have expired if its life had not been extended.
	WarnAfter *jwt.NumericDate `json:"warnafter,omitempty"`
}

type reference struct {
	Name string `json:"name"`
	UID  string `json:"uid,omitempty"`
}

// Complete implements apiserver.Completer: admission sees the account's name, and how long the token is to be valid.
func (i *Issuer) Complete(body runtime.Object, account string) {
	r := body.(*authenticationv1.TokenRequest)
	if r.Name == "" {
		r.Name = account
	}
	if r.Spec.ExpirationSeconds == nil {
		r.Spec.ExpirationSeconds = new(int64(defaultLife / time.Second))
	}
}

// Act issues a token: POST …/serviceaccounts/NAME/token.
func (i *Issuer) Act(ctx context.Context, c *apiserver.ActionCall) (runtime.Object, int, error) {
	r := c.Body.(*authenticationv1.TokenRequest)
	account, err := c.Storage.Get(ctx, c.Namespace, c.Name, registry.Freshness{})
	if err != nil {
		return nil, 0, err
	}
	o, err := c.Storage.Kind().Decode(ctx, account.Value(), account.Revision.String())
	if err != nil {
		return nil, 0, err
	}
	if r.Name != "" && r.Name != c.Name {
		return nil, 0, apierrors.NewInvalid(tokenKind, c.Name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "name"), r.Name, "must match the service account name if specified")})
	}
	life, err := i.lifeOf(r, c.Options.Warn)
	if err != nil {
		return nil, 0, err
	}
	now := i.o.Now()
	set := claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: i.o.Names[0], Subject: auth.AccountName(c.Namespace, c.Name), Audience: r.Spec.Audiences,
			IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(life)), ID: string(uuid.NewUUID()),
		},
		Kubernetes: bound{Namespace: c.Namespace, ServiceAccount: reference{c.Name, string(o.GetUID())}},
	}
	if len(set.Audience) == 0 {
		set.Audience = i.o.Audiences
	}
	if err := i.bind(ctx, &set.Kubernetes, r.Spec.BoundObjectRef, c.Namespace); err != nil {
		return nil, 0, err
	}
	if !i.o.NoExtension && set.Kubernetes.Pod != nil && life == renewedLife && i.forThisServer(set.Audience) {
		set.Kubernetes.WarnAfter, set.ExpiresAt = set.ExpiresAt, jwt.NewNumericDate(now.Add(extendedLife))
	}
	token, err := i.sign(set)
	if err != nil {
		return nil, 0, apierrors.NewInternalError(err)
	}
	seconds := int64(life / time.Second)
	r.Name, r.Namespace, r.UID, r.CreationTimestamp = c.Name, c.Namespace, uuid.NewUUID(), metav1.NewTime(now)
	r.Spec.Audiences, r.Spec.ExpirationSeconds = set.Audience, &seconds
	r.Status = authenticationv1.TokenRequestStatus{Token: token, ExpirationTimestamp: metav1.NewTime(now.Add(life))}
	return r, http.StatusCreated, nil
}

// forThisServer reports whether a token with these audiences is meant for nobody but this API server.
func (i *Issuer) forThisServer(audiences []string) bool {
	return !slices.ContainsFunc(audiences, func(a string) bool { return !slices.Contains(i.o.Audiences, a) })
}

func (i *Issuer) sign(set jwt.Claims) (string, error) {
	token := jwt.NewWithClaims(i.keys[0].method, set)
	token.Header["kid"] = i.keys[0].id
	return token.SignedString(i.o.Key)
}

// lifeOf returns how long a token is to be valid. A bound that the administrator has set shortens that, with a warning.
func (i *Issuer) lifeOf(r *authenticationv1.TokenRequest, warn func(string)) (time.Duration, error) {
	life, err := requestedLife(r)
	if err != nil || i.o.MaxLife <= 0 || life <= i.o.MaxLife {
		return life, err
	}
	if warn != nil {
		warn(fmt.Sprintf("requested expiration of %d seconds shortened to %d seconds", life/time.Second, i.o.MaxLife/time.Second))
	}
	return i.o.MaxLife, nil
}

func requestedLife(r *authenticationv1.TokenRequest) (time.Duration, error) {
	if r.Spec.ExpirationSeconds == nil {
		return defaultLife, nil
	}
	path := field.NewPath("spec", "expirationSeconds")
	seconds := *r.Spec.ExpirationSeconds
	switch {
	case seconds < int64(shortestLife/time.Second):
		return 0, invalidToken(field.Invalid(path, seconds, "may not specify a duration less than 10 minutes"))
	case seconds > int64(longestLife/time.Second):
		return 0, invalidToken(field.Invalid(path, seconds, "may not specify a duration larger than 2^32 seconds"))
	}
	return time.Duration(seconds) * time.Second, nil
}

func invalidToken(e *field.Error) error {
	return apierrors.NewInvalid(tokenKind, "", field.ErrorList{e})
}

var tokenKind = schema.GroupKind{Group: authenticationv1.GroupName, Kind: "TokenRequest"}

// bind binds the token to an object: it is valid only while the object exists.
func (i *Issuer) bind(ctx context.Context, b *bound, ref *authenticationv1.BoundObjectReference, namespace string) error {
	if ref == nil {
		return nil
	}
	places := map[string]struct {
		resource string
		at       **reference
	}{"Pod": {"pods", &b.Pod}, "Secret": {"secrets", &b.Secret}, "Node": {"nodes", &b.Node}}
	place, ok := places[ref.Kind]
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("cannot bind token to object of type %v", schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)))
	}
	o, err := i.object(ctx, place.resource, namespace, ref.Name)
	if err != nil {
		return err
	}
	if p, ok := o.(*corev1.Pod); ok && p.Spec.ServiceAccountName != b.ServiceAccount.Name {
		return apierrors.NewBadRequest(fmt.Sprintf("cannot bind token for serviceaccount %q to pod running with different serviceaccount name.", b.ServiceAccount.Name))
	}
	uid := string(o.GetUID())
	if ref.UID != "" && string(ref.UID) != uid {
		return apierrors.NewConflict(schema.GroupResource{Resource: place.resource}, ref.Name,
			fmt.Errorf("the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", ref.UID))
	}
	*place.at = &reference{ref.Name, uid}
	if p, ok := o.(*corev1.Pod); ok && p.Spec.NodeName != "" {
		return i.bindNode(ctx, b, p.Spec.NodeName)
	}
	return nil
}

// bindNode records the node of the token's pod.
func (i *Issuer) bindNode(ctx context.Context, b *bound, node string) error {
	b.Node = &reference{Name: node}
	o, err := i.object(ctx, "nodes", "", node)
	switch {
	case err == nil:
		b.Node.UID = string(o.GetUID())
	case !apierrors.IsNotFound(err):
		return err
	}
	return nil
}

func (i *Issuer) object(ctx context.Context, plural, namespace, name string) (resource.Object, error) {
	r := i.o.Registry
	kind, ok := r.Catalogue.Kind(schema.GroupResource{Resource: plural})
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: plural}, name)
	}
	if !kind.Namespaced {
		namespace = ""
	}
	storage, err := r.Storage(kind)
	if err != nil {
		return nil, err
	}
	// An object that is missing in the cache may just have been created, so the store is asked.
	cached, err := storage.Get(ctx, namespace, name, registry.Freshness{Any: true})
	if apierrors.IsNotFound(err) {
		cached, err = storage.Get(ctx, namespace, name, registry.Freshness{})
	}
	if err != nil {
		return nil, err
	}
	return kind.Decode(ctx, cached.Value(), cached.Revision.String())
}
