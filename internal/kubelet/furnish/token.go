package furnish

import (
	"context"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// oldest is the age at which any token is renewed, whatever its lifetime.
const oldest = 24 * time.Hour

// tokens has the service account tokens of pods.
type tokens struct {
	kube kubernetes.Interface

	mu    sync.Mutex // guards known
	known map[token]issued
}

type token struct {
	uid, audience string
	seconds       int64
}

type issued struct {
	text       string
	at, expiry time.Time
}

func newTokens(kube kubernetes.Interface) *tokens {
	return &tokens{kube: kube, known: map[token]issued{}}
}

// stale reports whether the token must be renewed: 80 % of its lifetime are over.
func (i issued) stale(now time.Time) bool {
	life := i.expiry.Sub(i.at)
	return now.After(i.at.Add(life*4/5)) || now.Sub(i.at) > oldest
}

// wallClock returns the time without a monotonic reading. The monotonic clock stands still while a machine is
// suspended, but tokens expire meanwhile.
func wallClock() time.Time { return time.Now().Round(0) }

// Token returns a token of a pod's service account for an audience.
func (f *Furnisher) Token(ctx context.Context, pod *corev1.Pod, audience string) (string, error) {
	return f.tokens.get(ctx, pod, &corev1.ServiceAccountTokenProjection{Audience: audience})
}

func (t *tokens) get(ctx context.Context, pod *corev1.Pod, p *corev1.ServiceAccountTokenProjection) (string, error) {
	if t.kube == nil {
		return "", ErrNoServer
	}
	seconds := int64(3600)
	if p.ExpirationSeconds != nil {
		seconds = *p.ExpirationSeconds
	}
	key := token{string(pod.UID), p.Audience, seconds}
	t.mu.Lock()
	known, ok := t.known[key]
	t.mu.Unlock()
	now := wallClock()
	if ok && !known.stale(now) {
		return known.text, nil
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	if p.Audience != "" {
		request.Spec.Audiences = []string{p.Audience}
	}
	account := pod.Spec.ServiceAccountName
	if account == "" {
		account = "default"
	}
	answer, err := t.kube.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		if ok && now.Before(known.expiry) {
			return known.text, nil
		}
		return "", err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known[key] = issued{answer.Status.Token, now, answer.Status.ExpirationTimestamp.Time}
	return answer.Status.Token, nil
}

func (t *tokens) forget(uid string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.known {
		if key.uid == uid {
			delete(t.known, key)
		}
	}
}
