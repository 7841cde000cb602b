package credentials

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certificatesclient "k8s.io/client-go/kubernetes/typed/certificates/v1"

	"github.com/millrace/millrace/internal/sleep"
)

const (
	// answerWithin is how long a request may wait for its certificate.
	answerWithin = 15 * time.Minute
	certificate  = "CERTIFICATE"
	privateKey   = "EC PRIVATE KEY"
)

// request gets a certificate for a new key. It also returns both in PEM.
func (r *Rotating) request(ctx context.Context) (*tls.Certificate, []byte, error) {
	kube, err := r.options.Kube()
	if err != nil {
		return nil, nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, r.options.Template(), key)
	if err != nil {
		return nil, nil, err
	}
	wanted := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: r.options.Signer, Usages: r.options.Usages,
		},
	}
	if life := r.options.Life; life > 0 {
		seconds := int32(life / time.Second)
		wanted.Spec.ExpirationSeconds = &seconds
	}
	requests := kube.CertificatesV1().CertificateSigningRequests()
	made, err := requests.Create(ctx, wanted, metav1.CreateOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("create a CertificateSigningRequest: %w", err)
	}
	issued, err := answer(ctx, requests, made)
	if err != nil {
		return nil, nil, fmt.Errorf("CertificateSigningRequest %s: %w", made.Name, err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	text := append(bytes.TrimSpace(issued), '\n')
	text = append(text, pem.EncodeToMemory(&pem.Block{Type: privateKey, Bytes: keyDER})...)
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate of CertificateSigningRequest %s: %w", made.Name, err)
	}
	return &pair, text, nil
}

// answer waits until a request is approved and signed, or refused.
func answer(ctx context.Context, requests certificatesclient.CertificateSigningRequestInterface, made *certificatesv1.CertificateSigningRequest) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerWithin, errors.New("not approved and signed in time"))
	defer cancel()
	for pause := time.Second; ; pause = min(2*pause, maxPause) {
		text, err := follow(ctx, requests, made)
		if text != nil || err != nil {
			return text, err
		}
		if !sleep.For(ctx, pause) {
			return nil, context.Cause(ctx)
		}
	}
}

// follow watches a request until it is answered. It returns nil if the watch ends before that.
func follow(ctx context.Context, requests certificatesclient.CertificateSigningRequestInterface, made *certificatesv1.CertificateSigningRequest) ([]byte, error) {
	watch, err := requests.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + made.Name})
	if err != nil {
		return nil, nil // the caller watches again
	}
	defer watch.Stop()
	for event := range watch.ResultChan() {
		found, ok := event.Object.(*certificatesv1.CertificateSigningRequest)
		if !ok || found.UID != made.UID {
			continue
		}
		if event.Type == "DELETED" {
			return nil, errors.New("was deleted before it was answered")
		}
		for _, c := range found.Status.Conditions {
			if c.Type == certificatesv1.CertificateDenied || c.Type == certificatesv1.CertificateFailed {
				return nil, fmt.Errorf("%s: %s: %s", c.Type, c.Reason, c.Message)
			}
		}
		if len(found.Status.Certificate) > 0 {
			return found.Status.Certificate, nil
		}
	}
	return nil, nil
}
