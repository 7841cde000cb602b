package loop

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// UseAccounts makes each loop send its requests with a token of a service account of its own, when its contexts are
// those of [WithName]. account returns the name of a loop's account in the namespace, or "" if it has none; an account
// that is missing is made. All other requests, and those for the tokens, are made as the configuration says.
func UseAccounts(config *rest.Config, namespace string, account func(loop string) string) error {
	own := rest.CopyConfig(config)
	own.QPS = -1 // at the start all loops need tokens
	kube, err := kubernetes.NewForConfig(own)
	if err != nil {
		return fmt.Errorf("make the client that asks for tokens: %w", err)
	}
	anonymous := rest.AnonymousClientConfig(config)
	anonymous.Transport = config.Transport
	bare, err := rest.TransportFor(anonymous)
	if err != nil {
		return fmt.Errorf("make the transport for service accounts: %w", err)
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &accounts{
			own: next, bare: bare, kube: kube.CoreV1().ServiceAccounts(namespace), namespace: namespace, account: account, byName: map[string]*accountToken{},
		}
	})
	return nil
}

type accounts struct {
	own       http.RoundTripper // has the credentials of the configuration
	bare      http.RoundTripper // has none
	kube      typedcorev1.ServiceAccountInterface
	namespace string
	account   func(loop string) string

	mu     sync.Mutex // guards byName
	byName map[string]*accountToken
}

// accountToken is the token of one service account.
type accountToken struct {
	mu    sync.Mutex // guards what follows; held while a token is requested
	token string
	renew time.Time
}

const (
	tokenFor     = time.Hour        // how long a token is valid
	tokenTimeout = 10 * time.Second // for requesting one
)

// RoundTrip implements http.RoundTripper.
func (a *accounts) RoundTrip(r *http.Request) (*http.Response, error) {
	loop := nameOf(r.Context())
	name := ""
	if loop != "" {
		name = a.account(loop)
	}
	if name == "" {
		return a.own.RoundTrip(r)
	}
	t := a.of(name)
	token, err := t.get(r.Context(), func(ctx context.Context) (string, error) { return a.request(ctx, name) })
	if err != nil {
		closeBody(r)
		return nil, fmt.Errorf("get a token of the service account %s/%s: %w", a.namespace, name, err)
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := a.bare.RoundTrip(r)
	if err == nil && answer.StatusCode == http.StatusUnauthorized {
		t.forget(token) // the account may have been made again
	}
	return answer, err
}

// closeBody closes the body of a request that is not sent, as a round tripper must.
func closeBody(r *http.Request) {
	if r.Body != nil {
		r.Body.Close()
	}
}

func (a *accounts) of(name string) *accountToken {
	a.mu.Lock()
	defer a.mu.Unlock()
	t, ok := a.byName[name]
	if !ok {
		t = &accountToken{}
		a.byName[name] = t
	}
	return t
}

// request requests a token, and makes the account if it is missing.
func (a *accounts) request(ctx context.Context, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, tokenTimeout)
	defer cancel()
	wanted := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(tokenFor / time.Second))}}
	made, err := a.kube.CreateToken(ctx, name, wanted, metav1.CreateOptions{})
	if apierrors.IsNotFound(err) {
		missing := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: name}}
		if _, err := a.kube.Create(ctx, missing, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return "", err
		}
		made, err = a.kube.CreateToken(ctx, name, wanted, metav1.CreateOptions{})
	}
	if err != nil {
		return "", err
	}
	return made.Status.Token, nil
}

// get returns the token. It requests a new one after four fifths of the time that a token is valid.
func (t *accountToken) get(ctx context.Context, request func(context.Context) (string, error)) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if t.token != "" && now.Before(t.renew) {
		return t.token, nil
	}
	token, err := request(ctx)
	if err != nil {
		return "", err
	}
	t.token, t.renew = token, now.Add(tokenFor*4/5)
	return token, nil
}

// forget drops a token that the server has refused.
func (t *accountToken) forget(refused string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.token == refused {
		t.token = ""
	}
}
