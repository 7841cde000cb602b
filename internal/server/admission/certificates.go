package admission

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

type signingRequest = certificatesv1.CertificateSigningRequest

func ofRequests(c *registry.Change, op registry.Operation, view string) bool {
	return c.Operation == op && c.View == view && is(c, "certificates.k8s.io", "certificatesigningrequests")
}

// signerNames are what a permission for a signer may be given for.
func signerNames(signer string) []string {
	domain, _, _ := strings.Cut(signer, "/")
	return []string{signer, domain + "/*"}
}

// certificateApproval lets only those approve who may for this signer.
func certificateApproval(a auth.Authorizer) registry.Admission {
	return validating("CertificateApproval", func(ctx context.Context, c *registry.Change) error {
		if !ofRequests(c, registry.Update, "approval") {
			return nil
		}
		if signer := c.Old.(*signingRequest).Spec.SignerName; !authorized(ctx, a, "approve", signer) {
			return forbidden(c, "user not permitted to approve requests with signerName %q", signer)
		}
		return nil
	})
}

// certificateSigning lets only those sign who may for this signer.
func certificateSigning(a auth.Authorizer) registry.Admission {
	return validating("CertificateSigning", func(ctx context.Context, c *registry.Change) error {
		if !ofRequests(c, registry.Update, "status") {
			return nil
		}
		r, old := c.Object.(*signingRequest), c.Old.(*signingRequest)
		if bytes.Equal(r.Status.Certificate, old.Status.Certificate) && equality.Semantic.DeepEqual(r.Status.Conditions, old.Status.Conditions) {
			return nil
		}
		if signer := old.Spec.SignerName; !authorized(ctx, a, "sign", signer) {
			return forbidden(c, "user not permitted to sign requests with signerName %q", signer)
		}
		return nil
	})
}

// podCertificateSigning lets only those write the status of a pod's request who may sign for its signer. It is part of
// the API, and no plugin that could be turned off.
func podCertificateSigning(a auth.Authorizer) registry.Admission {
	return validating("PodCertificateSigning", func(ctx context.Context, c *registry.Change) error {
		if c.Operation != registry.Update || c.View != "status" || !is(c, "certificates.k8s.io", "podcertificaterequests") {
			return nil
		}
		r, old := c.Object.(*certificatesv1.PodCertificateRequest), c.Old.(*certificatesv1.PodCertificateRequest)
		signer := old.Spec.SignerName
		if equality.Semantic.DeepEqual(r.Status, old.Status) || authorized(ctx, a, "sign", signer) {
			return nil
		}
		err := field.Forbidden(field.NewPath("spec", "signerName"),
			fmt.Sprintf("User %q is not permitted to \"sign\" for signer %q", resource.CallFrom(ctx).User, signer))
		return apierrors.NewInvalid(c.Kind.GroupVersionKind().GroupKind(), old.Name, field.ErrorList{err})
	})
}

// certificateSubjectRestriction gives nobody a certificate with which everything is allowed.
func certificateSubjectRestriction() registry.Admission {
	return validating("CertificateSubjectRestriction", func(_ context.Context, c *registry.Change) error {
		if !ofRequests(c, registry.Create, "") {
			return nil
		}
		r := c.Object.(*signingRequest)
		if r.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
			return nil
		}
		block, _ := pem.Decode(r.Spec.Request)
		if block == nil {
			return forbidden(c, "failed to parse CSR: PEM block type must be CERTIFICATE REQUEST")
		}
		parsed, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil {
			return forbidden(c, "failed to parse CSR: %v", err)
		}
		if slices.Contains(parsed.Subject.Organization, auth.Masters) {
			return forbidden(c, "use of %s signer with %s group is not allowed", r.Spec.SignerName, auth.Masters)
		}
		return nil
	})
}
