// Package credentials gets a node its certificates through CertificateSigningRequests, and renews them before they
// expire.
//
// Guarantees:
//
//   - A certificate is always replaced together with its key, in memory and in its file. A caller gets a valid pair or,
//     if there has never been one, none.
//   - A request that is denied, fails or is not answered within 15 minutes is made again with a new key, after a
//     growing delay.
//   - Without a directory, keys do not leave the process. In a directory, only the owner can read the file.
//   - When the client certificate is replaced, connections that were made with the old one are closed.
package credentials

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/kubernetes"
)

// Options describe the wanted certificate. Name, Signer, Usages, Template and Kube are required.
type Options struct {
	// Directory is where the certificate and its key are kept, in the file NAME-current.pem. Without a directory they
	// are kept in memory.
	Directory, Name string
	Signer          string
	Usages          []certificatesv1.KeyUsage
	// Template returns the wanted subject and names. When they change, a new certificate is requested.
	Template func() *x509.CertificateRequest
	// Kube returns the client that makes a request. It is called for each request.
	Kube func() (kubernetes.Interface, error)
	// Life is the requested lifetime: the signer decides by default.
	Life time.Duration
	// Exchanged is called after the certificate was replaced.
	Exchanged func()
	Logger    *slog.Logger
}

// Rotating is a certificate that is renewed before it expires.
type Rotating struct {
	options Options
	current atomic.Pointer[tls.Certificate]
}

// Open reads the stored certificate, if there is one that matches Template.
func Open(o Options) *Rotating {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Rotating{options: o}
	if c, err := r.read(); err != nil {
		o.Logger.Warn("stored certificate cannot be used; requesting a new one", "certificate", o.Name, "err", err)
	} else if c != nil {
		r.current.Store(c)
	}
	return r
}

// Certificate returns the current certificate, or nil.
func (r *Rotating) Certificate() *tls.Certificate { return r.current.Load() }

// Good reports whether there is a certificate that is valid now.
func (r *Rotating) Good() bool {
	c := r.current.Load()
	now := time.Now()
	return c != nil && now.Before(c.Leaf.NotAfter) && fits(c.Leaf, r.options.Template())
}

// renewal returns when a certificate is renewed: at a random point between 70 % and 90 % of its lifetime, so that nodes
// that were started together do not all renew at once.
func renewal(c *x509.Certificate) time.Time {
	life := c.NotAfter.Sub(c.NotBefore)
	return c.NotBefore.Add(time.Duration(float64(life) * (0.7 + 0.2*rand.Float64())))
}

// fits reports whether a certificate has the wanted subject and names.
func fits(c *x509.Certificate, wanted *x509.CertificateRequest) bool {
	if c.Subject.String() != wanted.Subject.String() {
		return false
	}
	names, ips := map[string]bool{}, map[string]bool{}
	for _, n := range c.DNSNames {
		names[n] = true
	}
	for _, ip := range c.IPAddresses {
		ips[ip.String()] = true
	}
	for _, n := range wanted.DNSNames {
		if !names[n] {
			return false
		}
	}
	for _, ip := range wanted.IPAddresses {
		if !ips[ip.String()] {
			return false
		}
	}
	return true
}
