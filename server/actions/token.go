package actions

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"net/http"
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

	"github.com/millrace/millrace/server/apiserver"
	"github.com/millrace/millrace/server/auth"
	"github.com/millrace/millrace/server/registry"
	"github.com/millrace/millrace/server/resource"
)

// Issuer makes service account tokens and knows them again.
type Issuer struct {
	Key *ecdsa.PrivateKey
	// Name is the issuer that the tokens carry; it is their audience too if none is asked for.
	Name     string
	Registry func() *registry.Registry
	Now      func() time.Time

	believed believed
}

const (
	defaultLife  = time.Hour
	shortestLife = 10 * time.Minute
	longestLife  = 1 << 32 * time.Second
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
}

type reference struct {
	Name string `json:"name"`
	UID  string `json:"uid,omitempty"`
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
	if r.Namespace != "" && r.Namespace != c.Namespace {
		return nil, 0, apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	if r.Name != "" && r.Name != c.Name {
		return nil, 0, apierrors.NewInvalid(tokenKind, c.Name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "name"), r.Name, "must match the service account name if specified")})
	}
	life, err := lifeOf(r)
	if err != nil {
		return nil, 0, err
	}
	now := i.Now()
	set := claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: i.Name, Subject: auth.AccountName(c.Namespace, c.Name), Audience: r.Spec.Audiences,
			IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(life)), ID: string(uuid.NewUUID()),
		},
		Kubernetes: bound{Namespace: c.Namespace, ServiceAccount: reference{c.Name, string(o.GetUID())}},
	}
	if len(set.Audience) == 0 {
		set.Audience = []string{i.Name}
	}
	if err := i.bind(ctx, &set.Kubernetes, r.Spec.BoundObjectRef, c.Namespace); err != nil {
		return nil, 0, err
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

// signing is how tokens are signed.
var signing = jwt.SigningMethodES256

func (i *Issuer) sign(set jwt.Claims) (string, error) {
	token := jwt.NewWithClaims(signing, set)
	id, err := keyID(&i.Key.PublicKey)
	if err != nil {
		return "", err
	}
	token.Header["kid"] = id
	return token.SignedString(i.Key)
}

func lifeOf(r *authenticationv1.TokenRequest) (time.Duration, error) {
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

// bind ties the token to the life of an object.
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

// bindNode says on which node the token's pod is.
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
	r := i.Registry()
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
	// An object that the cache does not have may have been created a moment ago: the store is asked.
	cached, err := storage.Get(ctx, namespace, name, registry.Freshness{Any: true})
	if apierrors.IsNotFound(err) {
		cached, err = storage.Get(ctx, namespace, name, registry.Freshness{})
	}
	if err != nil {
		return nil, err
	}
	return kind.Decode(ctx, cached.Value(), cached.Revision.String())
}
