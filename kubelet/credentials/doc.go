// Package credentials gets a node its certificates: by a CertificateSigningRequest, as long as there is none or none that is good, and
// again before the present one ends.
//
// What is guaranteed:
//
//   - A certificate is replaced as a whole with its key, in memory and in its file: who asks gets one that is good or, if there has
//     never been one, none.
//   - A request that is denied, fails or is not answered within a quarter of an hour is made anew, with a new key, after a pause that
//     grows.
//   - Without a folder keys do not leave the process. In a folder a file is readable by its owner alone.
//   - When the client certificate is exchanged, connections that were made with the one before end.
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

// Options say which certificate is wanted. Name, Signer, Usages, Template and Kube are needed.
type Options struct {
	// Folder keeps the certificate and its key in the file NAME-current.pem. Without one they are kept in memory.
	Folder, Name string
	Signer       string
	Usages       []certificatesv1.KeyUsage
	// Template tells what the certificate is to say. With another answer than before a new certificate is asked for.
	Template func() *x509.CertificateRequest
	// Kube is by whom certificates are asked for. It is asked for each request.
	Kube func() (kubernetes.Interface, error)
	// Life is how long a certificate is to be good: the signer's choice by default.
	Life time.Duration
	// Exchanged is called when there is another certificate.
	Exchanged func()
	Logger    *slog.Logger
}

// Rotating is a certificate that is replaced before it ends.
type Rotating struct {
	options Options
	current atomic.Pointer[tls.Certificate]
}

// Open reads the certificate that is there, if there is one that fits.
func Open(o Options) *Rotating {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Rotating{options: o}
	if c, err := r.read(); err != nil {
		o.Logger.Warn("a certificate cannot be read, and is asked for anew", "certificate", o.Name, "err", err)
	} else if c != nil {
		r.current.Store(c)
	}
	return r
}

// Certificate is the present one, or nil.
func (r *Rotating) Certificate() *tls.Certificate { return r.current.Load() }

// Good tells whether there is a certificate that can be used now.
func (r *Rotating) Good() bool {
	c := r.current.Load()
	now := time.Now()
	return c != nil && now.Before(c.Leaf.NotAfter) && fits(c.Leaf, r.options.Template())
}

// renewal is when a certificate is replaced: at a random point between seven and nine tenths of its life, so that nodes that were
// started together do not ask together.
func renewal(c *x509.Certificate) time.Time {
	life := c.NotAfter.Sub(c.NotBefore)
	return c.NotBefore.Add(time.Duration(float64(life) * (0.7 + 0.2*rand.Float64())))
}

// fits tells whether a certificate says what is wanted.
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
