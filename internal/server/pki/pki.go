// Package pki makes, keeps and renews the keys of a small cluster: an authority, the server's certificate, an
// administrator's client certificate, an authority and a certificate for the front proxy, and the key that signs
// service account tokens.
//
// Guarantees:
//
//   - Existing files are used as they are. A certificate is made again if it is missing, does not fit the
//     configuration, or expires within 30 days; an authority only if it has expired, because all clients would have to
//     learn the new one.
//   - A file is replaced as a whole and synced: after a crash it has the old content or the new. A certificate and its
//     key are two files; a pair that does not match after a crash is made again.
//   - Keys are readable by their owner only. Without a directory everything lives in memory.
//   - While Rotating.Run runs, certificates are renewed before they expire, and changed files are read again. If a file
//     cannot be used, the last valid content stays in use.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	authorityLife   = 10 * 365 * 24 * time.Hour
	certificateLife = 365 * 24 * time.Hour
	// renewBefore is how long before its end a certificate is renewed.
	renewBefore = 30 * 24 * time.Hour
	// backdate makes a new certificate valid for clients whose clocks are slow.
	backdate = 5 * time.Minute
)

// Pair is a certificate and its key.
type Pair struct {
	Certificate *x509.Certificate
	Key         *ecdsa.PrivateKey
	CertPEM     []byte
	KeyPEM      []byte
}

// Keys are all keys of a cluster. They are never modified: Rotating replaces them as a whole.
type Keys struct {
	Authority Pair
	Serving   Pair
	Admin     Pair
	// ProxyAuthority and Proxy identify this server as a front proxy to other API servers, which then trust the user
	// that it names.
	ProxyAuthority Pair
	Proxy          Pair
	// Signing signs service account tokens.
	Signing crypto.Signer
}

// Open reads the keys of a directory, and makes those that are missing. hosts are the server's names and addresses. If
// directory is empty, everything is kept in memory.
func Open(directory string, hosts []string, now time.Time) (*Keys, error) {
	s, err := openStorage(directory)
	if err != nil {
		return nil, err
	}
	return open(s, hosts, now)
}

func open(s storage, hosts []string, now time.Time) (*Keys, error) {
	all := &together{storage: s}
	k, err := all.open(hosts, now)
	return k, errors.Join(err, all.writes.Wait())
}

// together writes all pairs at the same time: a disk syncs many files in the time of one.
type together struct {
	storage
	writes errgroup.Group
}

func (s *together) write(name string, p Pair) error {
	s.writes.Go(func() error { return s.storage.write(name, p) })
	return nil
}

func (s *together) open(hosts []string, now time.Time) (k *Keys, err error) {
	k = &Keys{}
	if k.Authority, err = pair(s, "ca", nil, now, authorityTemplate); err != nil {
		return nil, err
	}
	serving := func(t *x509.Certificate) { servingTemplate(t, hosts) }
	if k.Serving, err = pair(s, "apiserver", &k.Authority, now, serving); err != nil {
		return nil, err
	}
	if k.Admin, err = pair(s, "admin", &k.Authority, now, adminTemplate); err != nil {
		return nil, err
	}
	if k.ProxyAuthority, err = pair(s, "front-proxy-ca", nil, now, proxyAuthorityTemplate); err != nil {
		return nil, err
	}
	if k.Proxy, err = pair(s, "front-proxy-client", &k.ProxyAuthority, now, proxyTemplate); err != nil {
		return nil, err
	}
	k.Signing, err = s.signing()
	return k, err
}

// pair reads a certificate and its key, or makes them.
func pair(s storage, name string, signer *Pair, now time.Time, fill func(*x509.Certificate)) (Pair, error) {
	wanted := template(now)
	fill(wanted)
	p, err := s.read(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return Pair{}, err
	case signer == nil && !p.matches():
		return Pair{}, fmt.Errorf("the authority's certificate (%s.crt) and key (%s.key) do not belong together: restore them, or delete both to have a new authority made", name, name)
	case signer == nil && now.Before(p.Certificate.NotAfter), isUsable(p, signer, wanted, now):
		return p, nil
	}
	if p, err = Issue(wanted, signer); err != nil {
		return Pair{}, err
	}
	return p, s.write(name, p)
}

// matches reports whether the certificate belongs to the key.
func (p Pair) matches() bool {
	public, ok := p.Certificate.PublicKey.(*ecdsa.PublicKey)
	return ok && public.Equal(p.Key.Public())
}

// isUsable reports whether a certificate fits what is wanted, and is not about to expire.
func isUsable(p Pair, signer *Pair, wanted *x509.Certificate, now time.Time) bool {
	if needsRenewal(p.Certificate, now) || !p.matches() {
		return false
	}
	if signer != nil && p.Certificate.CheckSignatureFrom(signer.Certificate) != nil {
		return false
	}
	if !slices.Equal(p.Certificate.ExtKeyUsage, wanted.ExtKeyUsage) {
		return false
	}
	for _, ip := range wanted.IPAddresses {
		if !slices.ContainsFunc(p.Certificate.IPAddresses, ip.Equal) {
			return false
		}
	}
	for _, n := range wanted.DNSNames {
		if !slices.Contains(p.Certificate.DNSNames, n) {
			return false
		}
	}
	return true
}

// needsRenewal reports whether a certificate must be renewed.
func needsRenewal(c *x509.Certificate, now time.Time) bool {
	return now.Add(renewBefore).After(c.NotAfter) || now.Before(c.NotBefore)
}

// Client makes a client certificate. It is not renewed.
func (k *Keys) Client(name string, groups []string, now time.Time) (Pair, error) {
	return Issue(clientTemplate(name, groups, now), &k.Authority)
}

// ReadAuthority reads the authority of a directory of keys; it must exist.
func ReadAuthority(path string) (Pair, error) {
	p, err := directory(path).read("ca")
	if err != nil {
		return Pair{}, fmt.Errorf("read the authority of %s: %w", path, err)
	}
	return p, nil
}

// ReadCertificate reads the first certificate of a file.
func ReadCertificate(path string) (*x509.Certificate, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM certificate", path)
	}
	return x509.ParseCertificate(block.Bytes)
}

// IssueClient makes a client certificate that is valid for life, but not longer than its authority.
func IssueClient(authority *Pair, name string, groups []string, now time.Time, life time.Duration) (Pair, error) {
	t := clientTemplate(name, groups, now)
	if t.NotAfter = now.Add(life); authority.Certificate.NotAfter.Before(t.NotAfter) {
		t.NotAfter = authority.Certificate.NotAfter
	}
	return Issue(t, authority)
}

// Clients returns the authorities of client certificates.
func (k *Keys) Clients() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(k.Authority.Certificate)
	return pool
}
