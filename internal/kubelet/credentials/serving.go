package credentials

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"log/slog"
	"net"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/kubernetes"
)

// ServingOptions describe the certificate of a node's server.
type ServingOptions struct {
	Kube      kubernetes.Interface
	Node      string
	Directory string
	// Hosts returns the node's names and addresses.
	Hosts  func() []string
	Logger *slog.Logger
}

// Serving is the certificate of a node's server. Its requests must be approved by an administrator or an approver.
type Serving struct{ *Rotating }

// NewServing opens the certificate. Run requests one if there is none.
func NewServing(o ServingOptions) Serving {
	return Serving{Open(Options{
		Directory: o.Directory, Name: "kubelet-server", Signer: certificatesv1.KubeletServingSignerName, Logger: o.Logger,
		Usages:   []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		Kube:     func() (kubernetes.Interface, error) { return o.Kube, nil },
		Template: func() *x509.CertificateRequest { return servingRequest(o.Node, o.Hosts()) },
	})}
}

func servingRequest(node string, hosts []string) *x509.CertificateRequest {
	r := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			r.IPAddresses = append(r.IPAddresses, ip)
		} else if !slices.Contains(r.DNSNames, h) {
			r.DNSNames = append(r.DNSNames, h)
		}
	}
	return r
}

// ErrNoServing means that the node's server has no certificate yet.
var ErrNoServing = errors.New("no serving certificate available for the kubelet")

// Get returns the certificate for a connection.
func (s Serving) Get() (*tls.Certificate, error) {
	if c := s.Certificate(); c != nil {
		return c, nil
	}
	return nil, ErrNoServing
}
