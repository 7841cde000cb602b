package certificates

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource/check"
)

// shortest is the shortest lifetime that may be requested for a certificate, in seconds.
const shortest = 600

func checkRequest(r *request) field.ErrorList {
	path := field.NewPath("spec")
	var errs field.ErrorList
	if block, _ := pem.Decode(r.Spec.Request); block == nil || block.Type != "CERTIFICATE REQUEST" {
		errs = append(errs, field.Invalid(path.Child("request"), r.Spec.Request, "PEM block type must be CERTIFICATE REQUEST"))
	} else if _, err := x509.ParseCertificateRequest(block.Bytes); err != nil {
		errs = append(errs, field.Invalid(path.Child("request"), r.Spec.Request, err.Error()))
	}
	errs = append(errs, checkUsages(r.Spec.Usages, path.Child("usages"))...)
	if r.Spec.SignerName == "kubernetes.io/legacy-unknown" {
		errs = append(errs, field.Invalid(path.Child("signerName"), r.Spec.SignerName, "the legacy signerName is not allowed via this API version"))
	} else {
		errs = append(errs, check.Signer(r.Spec.SignerName, path.Child("signerName"))...)
	}
	if n := r.Spec.ExpirationSeconds; n != nil && *n < shortest {
		errs = append(errs, field.Invalid(path.Child("expirationSeconds"), *n, "may not specify a duration less than 600 seconds (10 minutes)"))
	}
	return append(errs, checkOutcome(r, nil)...)
}

// usages are the known key usages, in Kubernetes' order.
var usages = []certificatesv1.KeyUsage{
	certificatesv1.UsageAny, certificatesv1.UsageCertSign, certificatesv1.UsageClientAuth, certificatesv1.UsageCodeSigning,
	certificatesv1.UsageContentCommitment, certificatesv1.UsageCRLSign, certificatesv1.UsageDataEncipherment,
	certificatesv1.UsageDecipherOnly, certificatesv1.UsageDigitalSignature, certificatesv1.UsageEmailProtection,
	certificatesv1.UsageEncipherOnly, certificatesv1.UsageIPsecEndSystem, certificatesv1.UsageIPsecTunnel, certificatesv1.UsageIPsecUser,
	certificatesv1.UsageKeyAgreement, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageMicrosoftSGC, certificatesv1.UsageNetscapeSGC,
	certificatesv1.UsageOCSPSigning, certificatesv1.UsageSMIME, certificatesv1.UsageServerAuth, certificatesv1.UsageSigning,
	certificatesv1.UsageTimestamping,
}

func checkUsages(all []certificatesv1.KeyUsage, path *field.Path) field.ErrorList {
	if len(all) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	for i, u := range all {
		errs = append(errs, check.OneOf(u, path.Index(i), usages...)...)
		if slices.Contains(all[:i], u) {
			errs = append(errs, field.Duplicate(path.Index(i), u))
		}
	}
	return errs
}

// checkOutcome validates the status: conditions and certificate.
func checkOutcome(r, old *request) field.ErrorList {
	errs := checkConditions(r.Status.Conditions, field.NewPath("status", "conditions"))
	if old != nil && bytes.Equal(r.Status.Certificate, old.Status.Certificate) {
		return errs
	}
	if err := certificateProblem(r.Status.Certificate); err != nil {
		errs = append(errs, field.Invalid(field.NewPath("status", "certificate"), "<certificate data>", err.Error()))
	}
	return errs
}

func checkConditions(all []certificatesv1.CertificateSigningRequestCondition, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[certificatesv1.RequestConditionType]bool{}
	for i, c := range all {
		at := path.Index(i)
		if c.Type == "" {
			errs = append(errs, field.Required(at.Child("type"), ""))
		}
		allowed := []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown}
		if isVerdict(c.Type) || c.Type == certificatesv1.CertificateFailed {
			allowed = []corev1.ConditionStatus{corev1.ConditionTrue}
		}
		if c.Status == "" {
			errs = append(errs, field.Required(at.Child("status"), ""))
		} else {
			errs = append(errs, check.OneOf(c.Status, at.Child("status"), allowed...)...)
		}
		opposite := isVerdict(c.Type) && (c.Type == certificatesv1.CertificateApproved && seen[certificatesv1.CertificateDenied] ||
			c.Type == certificatesv1.CertificateDenied && seen[certificatesv1.CertificateApproved])
		if opposite {
			errs = append(errs, field.Invalid(path, c.Type, "Approved and Denied conditions are mutually exclusive"))
		}
		if seen[c.Type] {
			errs = append(errs, field.Duplicate(at.Child("type"), c.Type))
		}
		seen[c.Type] = true
	}
	return errs
}

func certificateProblem(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	found := false
	for {
		block, rest := pem.Decode(data)
		if block == nil {
			break
		}
		data, found = rest, true
		if block.Type != "CERTIFICATE" {
			return fmt.Errorf("only CERTIFICATE PEM blocks are allowed, found %q", block.Type)
		}
		if len(block.Headers) > 0 {
			return errors.New("no PEM block headers are permitted")
		}
		certificates, err := x509.ParseCertificates(block.Bytes)
		if err != nil {
			return err
		}
		if len(certificates) == 0 {
			return errors.New("found CERTIFICATE PEM block containing 0 certificates")
		}
	}
	if !found {
		return errors.New("must contain at least one CERTIFICATE PEM block")
	}
	return nil
}

func checkUpdate(r, old *request) field.ErrorList {
	return append(checkOutcome(r, old), checkKept(r, old, true)...)
}

func checkStatus(r, old *request) field.ErrorList {
	errs := append(checkOutcome(r, old), checkKept(r, old, true)...)
	if len(old.Status.Certificate) > 0 && !bytes.Equal(r.Status.Certificate, old.Status.Certificate) {
		errs = append(errs, field.Forbidden(field.NewPath("status", "certificate"), "updates may not modify existing certificate content"))
	}
	return errs
}

func checkApproval(r, old *request) field.ErrorList {
	return append(checkOutcome(r, old), checkKept(r, old, false)...)
}

// checkKept refuses to remove an Approved, Denied or Failed condition. If noVerdicts is set, it also refuses to add
// Approved or Denied, which only the approval subresource may do.
func checkKept(r, old *request, noVerdicts bool) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("status", "conditions")
	now, was := byType(r.Status.Conditions), byType(old.Status.Conditions)
	for _, t := range []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed} {
		if _, has := now[t]; !has && len(was[t].Type) > 0 {
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("updates may not remove a condition of type %q", t)))
		}
	}
	for _, t := range []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved, certificatesv1.CertificateDenied} {
		after, has := now[t]
		before, had := was[t]
		switch {
		case !noVerdicts || !has:
		case !had:
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("updates may not add a condition of type %q", t)))
		case !equality.Semantic.DeepEqual(after, before):
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("updates may not modify a condition of type %q", t)))
		}
	}
	return errs
}
