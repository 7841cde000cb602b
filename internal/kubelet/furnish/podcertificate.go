package furnish

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// refreshSpread is within which time the certificates of a node that began together are renewed.
	refreshSpread = 5 * time.Minute
	// refreshOverdue is how long after its time a certificate may be renewed without an event.
	refreshOverdue = 10 * time.Minute
	// requestShown is how long a request may take to be seen by the one who has made it. One that is not seen then has
	// been deleted.
	requestShown = time.Minute
)

// podCertificates has the keys and certificates of pods: what each source of a projected volume asks for. Keys are in
// memory and in the volumes alone, so that a kubelet that starts again asks for all of them again.
type podCertificates struct {
	o       *Options
	objects *objects

	mu    sync.Mutex // guards known
	known map[projection]*podCertificate
}

// projection is one source of a volume.
type projection struct {
	uid, volume string
	source      int
}

// podCertificate is what a pod has, and what has been asked for it.
type podCertificate struct {
	mu      sync.Mutex // held while a pod asks; guards all below
	have    *credential
	asked   *asked
	refused error // for good
	told    string
}

// credential is a private key with its certificates, in PEM.
type credential struct {
	key, chain      []byte
	refresh, expiry time.Time
}

// asked is a request that has not ended yet.
type asked struct {
	key  []byte
	name string
	at   time.Time
}

var errNotIssued = errors.New("credential bundle is not issued yet")

// get returns what a source of a volume asks for, and asks for it if there is none, or if it is to be renewed. When a
// request ends the pod is reported as changed.
func (c *podCertificates) get(ctx context.Context, pod *corev1.Pod, at projection, s *corev1.PodCertificateProjection) (*credential, error) {
	if c.o.Kube == nil {
		return nil, ErrNoServer
	}
	p := c.of(at)
	p.mu.Lock()
	defer p.mu.Unlock()
	now := wallClock()
	if p.refused == nil && p.asked == nil && (p.have == nil || !now.Before(p.have.refresh)) {
		err := c.ask(ctx, pod, p, s)
		if err != nil && p.have == nil {
			return nil, err
		}
		if err != nil {
			c.o.Logger.Warn("certificate of a pod is not renewed", "pod", at.uid, "volume", at.volume, "err", err)
		}
	}
	if p.asked != nil {
		c.take(ctx, pod, p)
	}
	switch {
	case p.have != nil: // a pod keeps what it has, also when the next one is refused
	case p.refused != nil:
		return nil, p.refused
	default:
		return nil, errNotIssued
	}
	c.tellAge(pod, p, now)
	return p.have, nil
}

func (c *podCertificates) of(at projection) *podCertificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.known[at]
	if p == nil {
		p = &podCertificate{}
		c.known[at] = p
	}
	return p
}

// ask makes a key and a request for it.
func (c *podCertificates) ask(ctx context.Context, pod *corev1.Pod, p *podCertificate, s *corev1.PodCertificateProjection) error {
	account, err := c.o.Kube.CoreV1().ServiceAccounts(pod.Namespace).Get(ctx, pod.Spec.ServiceAccountName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the service account of the pod: %w", err)
	}
	node, err := c.o.Kube.CoreV1().Nodes().Get(ctx, c.o.Node, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the node: %w", err)
	}
	key, stub, err := makeKey(s.KeyType)
	if err != nil {
		return err
	}
	r, err := c.o.Kube.CertificatesV1().PodCertificateRequests(pod.Namespace).Create(ctx, &certificatesv1.PodCertificateRequest{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName:    "req-",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
		},
		Spec: certificatesv1.PodCertificateRequestSpec{
			SignerName: s.SignerName, PodName: pod.Name, PodUID: pod.UID,
			ServiceAccountName: account.Name, ServiceAccountUID: account.UID, NodeName: types.NodeName(node.Name), NodeUID: node.UID,
			MaxExpirationSeconds: s.MaxExpirationSeconds, StubPKCS10Request: stub, UnverifiedUserAnnotations: s.UserAnnotations,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("request a certificate: %w", err)
	}
	p.asked = &asked{key: key, name: r.Name, at: wallClock()}
	return nil
}

// take looks at what has become of a request.
func (c *podCertificates) take(ctx context.Context, pod *corev1.Pod, p *podCertificate) {
	key := object{podRequestKind, pod.Namespace, p.asked.name}
	data, err := c.objects.get(ctx, pod, key)
	switch {
	case apierrors.IsNotFound(err) && wallClock().Sub(p.asked.at) > requestShown: // somebody has deleted it
	case err != nil || len(data) == 0: // still open; or the server does not answer
		return
	case data[endIssued] != nil:
		if have, err := issuedTo(p.asked.key, data); err == nil {
			p.have, p.told = have, ""
		} else {
			p.refused = err
		}
	default:
		how, why := "Denied", string(data[endDenied])
		if data[endFailed] != nil {
			how, why = "Failed", string(data[endFailed])
		}
		p.refused = fmt.Errorf("PodCertificateRequest %s/%s has ended: %s: %s", pod.Namespace, key.name, how, why)
		c.o.Record.Eventf(pod, corev1.EventTypeWarning, how, "%v", p.refused)
	}
	p.asked = nil
	c.objects.drop(string(pod.UID), key)
}

// tellAge tells once that a certificate should have been renewed, and once that it has expired.
func (c *podCertificates) tellAge(pod *corev1.Pod, p *podCertificate, now time.Time) {
	reason, text := "", ""
	switch {
	case now.After(p.have.expiry):
		reason, text = "CertificateExpired", "PodCertificate expired"
	case now.After(p.have.refresh.Add(refreshOverdue)):
		reason, text = "CertificateOverdueForRefresh", "PodCertificate refresh overdue"
	}
	if reason != "" && p.told != reason {
		p.told = reason
		c.o.Record.Eventf(pod, corev1.EventTypeWarning, reason, "%s", text)
	}
}

// forget removes all of a pod.
func (c *podCertificates) forget(uid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at := range c.known {
		if at.uid == uid {
			delete(c.known, at)
		}
	}
}

// spread is a random part of refreshSpread.
func spread() time.Duration { return rand.N(refreshSpread) }
