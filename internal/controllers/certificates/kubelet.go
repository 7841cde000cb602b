package certificates

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
)

const (
	nodesGroup = "system:nodes"
	nodePrefix = "system:node:"
)

// kubeletClient returns an error unless the request is for a kubelet's client certificate: a node's name and nothing
// else.
func kubeletClient(r *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	switch {
	case !slices.Equal(r.Subject.Organization, []string{nodesGroup}):
		return errors.New("subject organization is not system:nodes")
	case len(r.DNSNames) > 0:
		return errors.New("DNS subjectAltNames are not allowed")
	case len(r.EmailAddresses) > 0:
		return errors.New("Email subjectAltNames are not allowed")
	case len(r.IPAddresses) > 0:
		return errors.New("IP subjectAltNames are not allowed")
	case len(r.URIs) > 0:
		return errors.New("URI subjectAltNames are not allowed")
	case !strings.HasPrefix(r.Subject.CommonName, nodePrefix):
		return errors.New("subject common name does not begin with system:node:")
	}
	return onlyFor(certificatesv1.UsageClientAuth, usages)
}

// kubeletServing returns an error unless the request is for a kubelet's serving certificate.
func kubeletServing(r *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	switch {
	case !slices.Equal(r.Subject.Organization, []string{nodesGroup}):
		return errors.New("subject organization is not system:nodes")
	case len(r.DNSNames)+len(r.IPAddresses) == 0:
		return errors.New("DNS or IP subjectAltName is required")
	case len(r.EmailAddresses) > 0:
		return errors.New("Email subjectAltNames are not allowed")
	case len(r.URIs) > 0:
		return errors.New("URI subjectAltNames are not allowed")
	}
	if err := onlyFor(certificatesv1.UsageServerAuth, usages); err != nil {
		return err
	}
	if !strings.HasPrefix(r.Subject.CommonName, nodePrefix) {
		return errors.New("subject common name does not begin with system:node:")
	}
	return nil
}

// onlyFor returns an error unless the usages are one extended usage, digital signature and, as RSA needs it, key
// encipherment.
func onlyFor(extended certificatesv1.KeyUsage, usages []certificatesv1.KeyUsage) error {
	wanted := []certificatesv1.KeyUsage{extended, certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment}
	has := func(u certificatesv1.KeyUsage) bool { return slices.Contains(usages, u) }
	others := slices.ContainsFunc(usages, func(u certificatesv1.KeyUsage) bool { return !slices.Contains(wanted, u) })
	if others || !has(extended) || !has(certificatesv1.UsageDigitalSignature) {
		slices.Sort(wanted)
		return fmt.Errorf("usages did not match %v", wanted)
	}
	return nil
}

// client returns an error unless the usages are allowed for client certificates.
func client(_ *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	for _, u := range usages {
		switch u {
		case certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment:
		default:
			return fmt.Errorf("invalid usage for client certificate: %s", u)
		}
	}
	if !slices.Contains(usages, certificatesv1.UsageClientAuth) {
		return fmt.Errorf("missing required usage for client certificate: %s", certificatesv1.UsageClientAuth)
	}
	return nil
}

// anything accepts all requests.
func anything(*x509.CertificateRequest, []certificatesv1.KeyUsage) error { return nil }
