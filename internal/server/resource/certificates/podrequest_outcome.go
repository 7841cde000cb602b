package certificates

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/mail"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ends are the types of the conditions with which a request ends.
var ends = []string{
	certificatesv1.PodCertificateRequestConditionTypeIssued, certificatesv1.PodCertificateRequestConditionTypeDenied,
	certificatesv1.PodCertificateRequestConditionTypeFailed,
}

const (
	maxChain        = 100 << 10
	clockDifference = 5 * time.Minute
	shortestLife    = time.Hour
	refreshMargin   = 10 * time.Minute
)

// endOf is how a request has ended; empty if it has not.
func endOf(r *podRequest) string {
	for _, c := range r.Status.Conditions {
		if c.Status == metav1.ConditionTrue && slices.Contains(ends, c.Type) {
			return c.Type
		}
	}
	return ""
}

// checkPodOutcome allows a status to be written once.
func checkPodOutcome(r, old *podRequest) field.ErrorList {
	path := field.NewPath("status")
	if errs := checkEnds(r.Status.Conditions, path.Child("conditions")); len(errs) > 0 {
		return errs
	}
	kept, problem := old.Status, ""
	switch end := endOf(r); {
	case endOf(old) != "":
		problem = "immutable after PodCertificateRequest is issued, denied, or failed"
	case end == certificatesv1.PodCertificateRequestConditionTypeIssued:
		return checkIssued(r, old, path)
	case end != "":
		kept = certificatesv1.PodCertificateRequestStatus{Conditions: r.Status.Conditions}
		problem = "non-condition status fields must be empty when denying or failing the PodCertificateRequest"
	default:
		problem = `status is immutable unless transitioning to "Issued", "Denied", or "Failed"`
	}
	if equality.Semantic.DeepEqual(r.Status, kept) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, omitted, problem)}
}

func checkEnds(all []metav1.Condition, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	known := 0
	for i, c := range all {
		at := path.Child(fmt.Sprintf("[%d]", i))
		if !slices.Contains(ends, c.Type) {
			errs = append(errs, field.NotSupported(at.Child("type"), c.Type, ends))
			continue
		}
		if known++; known > 1 {
			errs = append(errs, field.Invalid(at.Child("type"), c.Type, `There may be at most one condition with type "Issued", "Denied", or "Failed"`))
		}
		if c.Status != metav1.ConditionTrue {
			errs = append(errs, field.NotSupported(at.Child("status"), c.Status, []metav1.ConditionStatus{metav1.ConditionTrue}))
		}
	}
	return append(errs, metav1validation.ValidateConditions(all, path)...)
}

// checkIssued compares a chain with what was requested, and with the times beside it.
func checkIssued(r, old *podRequest, path *field.Path) field.ErrorList {
	chain := path.Child("certificateChain")
	if len(r.Status.CertificateChain) > maxChain {
		return field.ErrorList{field.TooLong(chain, r.Status.CertificateChain, maxChain)}
	}
	leaf, rest, problem := leafOf(r.Status.CertificateChain)
	if problem != "" {
		return field.ErrorList{field.Invalid(chain, r.Status.CertificateChain, problem)}
	}
	errs := checkNames(leaf, chain)
	wanted, err := x509.ParseCertificateRequest(old.Spec.StubPKCS10Request)
	if err != nil {
		return append(errs, field.Invalid(stubPath, omitted, "must be a valid PKCS#10 CSR"))
	}
	if key, ok := wanted.PublicKey.(interface{ Equal(crypto.PublicKey) bool }); ok && !key.Equal(leaf.PublicKey) {
		return append(errs, field.Invalid(chain, r.Status.CertificateChain, "leaf certificate was not issued to the requested public key"))
	}
	if errs = append(errs, checkTimes(r, path)...); len(errs) > 0 {
		return errs
	}
	if err := consistent(r, leaf, path); err != nil {
		return field.ErrorList{err}
	}
	if problem := restProblem(rest); problem != "" {
		return field.ErrorList{field.Invalid(chain, r.Status.CertificateChain, problem)}
	}
	return nil
}

func leafOf(chain string) (leaf *x509.Certificate, rest []byte, problem string) {
	block, rest := pem.Decode([]byte(chain))
	if block == nil {
		return nil, nil, "issued certificate chain must contain at least one certificate"
	}
	if block.Type != "CERTIFICATE" {
		return nil, nil, "issued certificate chain must consist entirely of CERTIFICATE PEM blocks"
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, nil, "leaf certificate does not parse as valid X.509"
	}
	return leaf, rest, ""
}

// restProblem says what is wrong with the certificates behind the first. Whether they sign each other cannot be seen
// without the root.
func restProblem(rest []byte) string {
	for block, rest := pem.Decode(rest); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			return "issued certificate chain must consist entirely of CERTFICATE PEM blocks"
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return "intermediate certificate does not parse as valid X.509"
		}
	}
	return ""
}

func checkNames(leaf *x509.Certificate, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range leaf.DNSNames {
		if name == "" {
			errs = append(errs, field.Invalid(path, name, "leaf certificate should not contain empty DNSName"))
		}
		if strings.Contains(name, "..") {
			errs = append(errs, field.Invalid(path, name, "leaf certificate's DNSName should not contain '..'"))
		}
		if strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") {
			errs = append(errs, field.Invalid(path, name, "leaf certificate's DNSName should not start or end with '.'"))
		}
	}
	for _, address := range leaf.EmailAddresses {
		if _, err := mail.ParseAddress(address); err != nil {
			errs = append(errs, field.Invalid(path, address, "leaf certificate should not contain invalid EmailAddress"))
		}
	}
	return errs
}

func checkTimes(r *podRequest, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, one := range []struct {
		name, detail string
		at           *metav1.Time
	}{
		{"notBefore", "must be present and consistent with the issued certificate", r.Status.NotBefore},
		{"notAfter", "must be present and consistent with the issued certificate", r.Status.NotAfter},
		{"beginRefreshAt", "must be present and in the range [notbefore+10min, notafter-10min]", r.Status.BeginRefreshAt},
	} {
		if one.at == nil {
			errs = append(errs, field.Required(path.Child(one.name), one.detail))
		}
	}
	return errs
}

// consistent compares the times of a status, which are all there, with its certificate and with the clock.
func consistent(r *podRequest, leaf *x509.Certificate, path *field.Path) *field.Error {
	first, last, refresh := r.Status.NotBefore.Time, r.Status.NotAfter.Time, r.Status.BeginRefreshAt.Time
	before, after, begin := path.Child("notBefore"), path.Child("notAfter"), path.Child("beginRefreshAt")
	life := leaf.NotAfter.Sub(leaf.NotBefore)
	longest := int32(0)
	if m := r.Spec.MaxExpirationSeconds; m != nil { // another server may have stored one without it
		longest = *m
	}
	switch {
	case !first.Equal(leaf.NotBefore):
		return field.Invalid(before, first, "must be set to the NotBefore time encoded in the leaf certificate")
	case time.Since(first).Abs() >= clockDifference:
		return field.Invalid(before, first, "must be set to within 5 minutes of kube-apiserver's current time")
	case !last.Equal(leaf.NotAfter):
		return field.Invalid(after, last, "must be set to the NotAfter time encoded in the leaf certificate")
	case life < shortestLife:
		return field.Invalid(path.Child("certificateChain"), life, "leaf certificate lifetime must be >= 1 hour")
	case life > time.Duration(longest)*time.Second:
		return field.Invalid(path.Child("certificateChain"), life, fmt.Sprintf("leaf certificate lifetime must be <= spec.maxExpirationSeconds (%d)", longest))
	case refresh.Before(first.Add(refreshMargin)):
		return field.Invalid(begin, refresh, "must be at least 10 minutes after status.notBefore")
	case refresh.After(last.Add(-refreshMargin)):
		return field.Invalid(begin, refresh, "must be at least 10 minutes before status.notAfter")
	}
	return nil
}
