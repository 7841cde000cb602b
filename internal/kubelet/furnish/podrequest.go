package furnish

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/informer/delta"
)

const podRequestKind = "podcertificaterequest"

// What is kept of a request: nothing while it is open. Of one that is issued there are the certificates and two times,
// and of another one the reason.
const (
	endIssued  = "chain"
	endRefresh = "refresh"
	endExpiry  = "expiry"
	endDenied  = "denied"
	endFailed  = "failed"
)

// makeKey makes a private key, in PEM, and a request that proves it, in DER, that says nothing else.
func makeKey(kind string) (text, stub []byte, err error) {
	var key crypto.Signer
	switch kind {
	case "RSA3072":
		key, err = rsa.GenerateKey(rand.Reader, 3072)
	case "RSA4096":
		key, err = rsa.GenerateKey(rand.Reader, 4096)
	case "ECDSAP256":
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ECDSAP384":
		key, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "ECDSAP521":
		key, err = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case "ED25519":
		_, key, err = ed25519.GenerateKey(rand.Reader)
	default:
		err = fmt.Errorf("unknown key type %q", kind)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode a key: %w", err)
	}
	stub, err = x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), stub, err
}

// watchPodRequest watches a request until ctx ends. A kubelet may only watch those of its own node.
func (o *objects) watchPodRequest(ctx context.Context, key object, e *entry) error {
	only := informer.Options[*certificatesv1.PodCertificateRequest]{
		Name: "kubelet", FieldSelector: "metadata.name=" + key.name + ",spec.nodeName=" + o.node,
		DropManagedFields: true, DisableStreaming: !o.streaming, Logger: o.log,
	}
	store := delta.NewUndeltaStore(func(all []*certificatesv1.PodCertificateRequest) {
		var data map[string][]byte
		for _, r := range all {
			data = endOf(r)
		}
		o.take(e, data)
	}, informer.StoreOptions[*certificatesv1.PodCertificateRequest]{})
	return informer.NewReflector(informer.For(o.kube.CertificatesV1().PodCertificateRequests(key.namespace)), store, only).Run(ctx)
}

func endOf(r *certificatesv1.PodCertificateRequest) map[string][]byte {
	data := map[string][]byte{}
	for _, c := range r.Status.Conditions {
		if c.Status != metav1.ConditionTrue {
			continue
		}
		why := []byte(c.Reason + ": " + c.Message)
		switch c.Type {
		case certificatesv1.PodCertificateRequestConditionTypeDenied:
			data[endDenied] = why
		case certificatesv1.PodCertificateRequestConditionTypeFailed:
			data[endFailed] = why
		case certificatesv1.PodCertificateRequestConditionTypeIssued:
			data[endIssued] = []byte(r.Status.CertificateChain)
			data[endRefresh], data[endExpiry] = timeText(r.Status.BeginRefreshAt), timeText(r.Status.NotAfter)
		}
	}
	return data
}

func timeText(t *metav1.Time) []byte {
	if t == nil {
		return nil
	}
	return []byte(t.UTC().Format(time.RFC3339))
}

// issuedTo joins a key with the certificates that were issued for it. The server has compared them.
func issuedTo(key []byte, data map[string][]byte) (*credential, error) {
	refresh, err := time.Parse(time.RFC3339, string(data[endRefresh]))
	if err != nil {
		return nil, fmt.Errorf("time at which a certificate is renewed: %w", err)
	}
	expiry, err := time.Parse(time.RFC3339, string(data[endExpiry]))
	if err != nil {
		return nil, fmt.Errorf("time at which a certificate expires: %w", err)
	}
	return &credential{key: key, chain: onlyCertificates(data[endIssued]), refresh: refresh.Add(spread()), expiry: expiry}, nil
}

// onlyCertificates removes headers, and whatever is between the certificates.
func onlyCertificates(chain []byte) []byte {
	var out bytes.Buffer
	for block, rest := pem.Decode(chain); block != nil; block, rest = pem.Decode(rest) {
		_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes}) // a buffer never fails
	}
	return out.Bytes()
}
