package past

import (
	"crypto/x509"
	"encoding/pem"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
)

// signerOf is who v1beta1 thought should sign a request that names nobody.
func signerOf(r *certificatesv1.CertificateSigningRequest) string {
	block, _ := pem.Decode(r.Spec.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return certificatesv1beta1.LegacyUnknownSignerName
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil || !ofNode(request) {
		return certificatesv1beta1.LegacyUnknownSignerName
	}
	hosts := len(request.DNSNames) + len(request.IPAddresses)
	switch {
	case hosts == 0 && uses(r.Spec.Usages, certificatesv1.UsageClientAuth):
		return certificatesv1.KubeAPIServerClientKubeletSignerName
	case hosts > 0 && uses(r.Spec.Usages, certificatesv1.UsageServerAuth):
		return certificatesv1.KubeletServingSignerName
	}
	return certificatesv1beta1.LegacyUnknownSignerName
}

// ofNode reports whether a request is for a node, and for nothing else.
func ofNode(r *x509.CertificateRequest) bool {
	return slices.Equal(r.Subject.Organization, []string{"system:nodes"}) && strings.HasPrefix(r.Subject.CommonName, "system:node:") &&
		len(r.EmailAddresses)+len(r.URIs) == 0
}

// uses reports whether usages are those of a kubelet's certificate for one purpose. Keys that are not RSA keys encipher
// nothing.
func uses(all []certificatesv1.KeyUsage, purpose certificatesv1.KeyUsage) bool {
	for _, u := range all {
		if u != purpose && u != certificatesv1.UsageDigitalSignature && u != certificatesv1.UsageKeyEncipherment {
			return false
		}
	}
	return slices.Contains(all, purpose) && slices.Contains(all, certificatesv1.UsageDigitalSignature)
}
