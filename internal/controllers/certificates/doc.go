// Package certificates approves, signs and cleans up CertificateSigningRequests, and cleans up
// PodCertificateRequests, which others sign.
//
// Guarantees:
//
//   - A kubelet's request for a client certificate is approved if a SubjectAccessReview allows it to the requester: for
//     its own node ("selfnodeclient"), or for any node ("nodeclient"). Nothing else is approved here.
//   - An approved request for one of Kubernetes' own signers gets its certificate. It is valid no longer than
//     requested, than the signer allows, and than the CA itself. A request that the signer does not allow gets the
//     condition Failed, for good.
//   - Requests are deleted an hour after they were decided, or after a day without a decision. PodCertificateRequests
//     are deleted a quarter of an hour after they were made.
//
// Serving certificates of kubelets and client certificates of users must be approved by a person or another program.
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
	approvingName  = "certificatesigningrequest-approving-controller"
	signingName    = "certificatesigningrequest-signing-controller"
	cleanerName    = "certificatesigningrequest-cleaner-controller"
	podCleanerName = "podcertificaterequest-cleaner-controller"
	workers        = 5
)

// Authority is a CA that signs certificates.
type Authority struct {
	Certificate *x509.Certificate
	Key         crypto.Signer
}

type request = certificatesv1.CertificateSigningRequest

// requests is what all three loops share.
type requests struct {
	kube  kubernetes.Interface
	cache *informer.Shared[*request]
	now   func() time.Time
}

func newRequests(c *loop.Clients) *requests {
	return &requests{kube: c.Kube, now: c.Now, cache: loop.Informer(c, informer.For(c.Kube.CertificatesV1().CertificateSigningRequests()))}
}

// loop returns a loop that calls sync for each request that changes.
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

// parse parses the CSR of a request.
func parse(r *request) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(r.Spec.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}
