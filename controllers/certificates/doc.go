// Package certificates approves, signs and cleans up the requests for certificates of a cluster.
//
// What is guaranteed:
//
//   - A kubelet's request for a client certificate is approved if the one who asks may have it, by a SubjectAccessReview: for
//     the node that it is already ("selfnodeclient"), or for any ("nodeclient"). Nothing else is approved here.
//   - An approved request of one of Kubernetes' own signers gets its certificate, for no longer than was asked for, than the
//     signer gives, and than the authority itself lives. What the signer does not give is refused for good, by the condition Failed.
//   - Requests are deleted an hour after they were decided, and a day after they were left lying.
//
// Nothing is approved that only people can judge: the serving certificates of kubelets and the client certificates of users
// wait for somebody who may.
package certificates

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

const (
	approvingName = "certificatesigningrequest-approving-controller"
	signingName   = "certificatesigningrequest-signing-controller"
	cleanerName   = "certificatesigningrequest-cleaner-controller"
	workers       = 5
)

// Authority signs certificates.
type Authority struct {
	Certificate *x509.Certificate
	Key         crypto.Signer
}

type request = certificatesv1.CertificateSigningRequest

// requests are what all three loops look at.
type requests struct {
	kube   kubernetes.Interface
	cache  *informer.Shared[*request]
	now    func() time.Time
	writes loop.Writes
}

func newRequests(c *loop.Clients) *requests {
	return &requests{kube: c.Kube, now: c.Now, cache: loop.Informer(c, informer.For(c.Kube.CertificatesV1().CertificateSigningRequests()))}
}

// loop calls sync for each request that changes.
func (r *requests) loop(c *loop.Clients, name string, sync syncing) *loop.Loop {
	return &loop.Loop{Name: name, Clients: c, Workers: workers, Sync: r.each(sync), Watches: []loop.Watch{loop.Self(r.cache)}}
}

func condition(r *request, wanted certificatesv1.RequestConditionType) *certificatesv1.CertificateSigningRequestCondition {
	for i := range r.Status.Conditions {
		if r.Status.Conditions[i].Type == wanted {
			return &r.Status.Conditions[i]
		}
	}
	return nil
}

// parse reads what is to be signed.
func parse(r *request) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(r.Spec.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}
