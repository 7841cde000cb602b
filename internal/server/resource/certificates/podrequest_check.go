package certificates

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"fmt"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource/check"
)

const (
	maxUID         = 128
	maxStubRequest = 10 << 10
)

// omitted stands in errors for what is too long, or nobody's business.
var omitted = field.OmitValueType{}

func checkPodRequest(r *podRequest) field.ErrorList {
	path, s := field.NewPath("spec"), &r.Spec
	errs := check.Signer(s.SignerName, path.Child("signerName"))
	if s.UnverifiedUserAnnotations != nil {
		errs = append(errs, check.SignerAnnotations(s.UnverifiedUserAnnotations, path.Child("unverifiedUserAnnotations"))...)
	}
	errs = append(errs, checkReference(path, "pod", s.PodName, s.PodUID)...)
	errs = append(errs, checkReference(path, "serviceAccount", s.ServiceAccountName, s.ServiceAccountUID)...)
	errs = append(errs, checkReference(path, "node", string(s.NodeName), s.NodeUID)...)
	switch at, longest := path.Child("maxExpirationSeconds"), check.MaxCertificateSeconds(s.SignerName); {
	case s.MaxExpirationSeconds == nil:
		return append(errs, field.Required(at, "must be set"))
	case *s.MaxExpirationSeconds < check.MinCertificateSeconds, *s.MaxExpirationSeconds > longest:
		errs = append(errs, field.Invalid(at, *s.MaxExpirationSeconds, fmt.Sprintf("must be in the range [%d, %d]", check.MinCertificateSeconds, longest)))
	}
	if len(s.StubPKCS10Request) == 0 {
		return append(errs, field.Invalid(path, omitted, "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set"))
	}
	return append(errs, checkStubRequest(s.StubPKCS10Request)...)
}

// checkReference validates the name and the UID of an object that a request is about.
func checkReference(path *field.Path, of, name string, uid types.UID) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.NameIsDNSSubdomain(name, false) {
		errs = append(errs, field.Invalid(path.Child(of+"Name"), name, msg))
	}
	at := path.Child(of + "UID")
	if uid == "" {
		errs = append(errs, field.Invalid(at, uid, "must not be empty"))
	}
	if len(uid) > maxUID {
		errs = append(errs, field.TooLong(at, uid, maxUID))
	}
	return errs
}

var stubPath = field.NewPath("spec", "stubPKCS10Request")

// checkStubRequest requires a request in PKCS #10 with a strong key and a true signature. What else is in it is for the
// signer to judge.
func checkStubRequest(der []byte) field.ErrorList {
	if len(der) > maxStubRequest {
		return field.ErrorList{field.TooLong(stubPath, der, maxStubRequest)}
	}
	r, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return field.ErrorList{field.Invalid(stubPath, omitted, "must be a valid PKCS#10 CSR")}
	}
	if err := keyProblem(r.PublicKey); err != nil {
		return field.ErrorList{err}
	}
	if r.CheckSignature() != nil {
		return field.ErrorList{field.Invalid(stubPath, omitted, "invalid signature")}
	}
	return nil
}

func keyProblem(key crypto.PublicKey) *field.Error {
	switch key := key.(type) {
	case ed25519.PublicKey:
	case *ecdsa.PublicKey:
		if c := key.Curve; c != elliptic.P256() && c != elliptic.P384() && c != elliptic.P521() {
			return field.Invalid(stubPath, "curve "+c.Params().Name, "elliptic public keys must use curve P256, P384, or P521")
		}
	case *rsa.PublicKey:
		if bits := key.Size() * 8; bits != 3072 && bits != 4096 {
			return field.Invalid(stubPath, fmt.Sprintf("%d-bit modulus", bits), "RSA keys must have modulus size 3072 or 4096")
		}
	default:
		return field.Invalid(stubPath, omitted, "unknown public key type; supported types are Ed25519, ECDSA, and RSA")
	}
	return nil
}
