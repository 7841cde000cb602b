// Package pki makes, keeps and renews the keys of a small cluster: an authority, the server's certificate, an administrator's
// client certificate, an authority and a certificate of the front proxy, and the key that signs service account tokens.
//
// What is guaranteed:
//
//   - What is in the folder is used as it is. What is missing, does not fit what is wanted, or expires within 30 days is made
//     anew; an authority only if it has expired, because all clients would have to learn the new one.
//   - A file is replaced as a whole and synced: a crash leaves the old content or the new one. A certificate and its key are two
//     files; a pair that does not match after a crash is made anew.
//   - Keys are readable by their owner alone. Without a folder everything lives in memory.
//   - While Rotating.Run runs, certificates are renewed before they expire and files are read again when they change. A file that
//     cannot be used leaves the last good content in use.
package pki

import (
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"
)

const (
	authorityLife   = 10 * 365 * 24 * time.Hour
	certificateLife = 365 * 24 * time.Hour
	// renewBefore is how long before its end a certificate is made anew.
	renewBefore = 30 * 24 * time.Hour
	// backdate lets clocks that are a little behind accept a new certificate.
	backdate = 5 * time.Minute
)

// Pair is a certificate and its key.
type Pair struct {
	Certificate *x509.Certificate
	Key         *ecdsa.PrivateKey
	CertPEM     []byte
	KeyPEM      []byte
}

// Keys are all that a cluster needs. They are not changed: Rotating exchanges them as a whole.
type Keys struct {
	Authority Pair
	Serving   Pair
	Admin     Pair
	// ProxyAuthority and Proxy are by which other API servers know that requests come from this one, for whoever it says.
	ProxyAuthority Pair
	Proxy          Pair
	// Signing signs service account tokens.
	Signing *ecdsa.PrivateKey
}

// Open reads the keys of a folder, and makes what is missing. hosts are the names and addresses that the server is
// reached at. An empty folder name keeps everything in memory.
func Open(folder string, hosts []string, now time.Time) (*Keys, error) {
	s, err := openStorage(folder)
	if err != nil {
		return nil, err
	}
	return open(s, hosts, now)
}

func open(s storage, hosts []string, now time.Time) (*Keys, error) {
	k := &Keys{}
	var err error
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
	case signer == nil && now.Before(p.Certificate.NotAfter), good(p, signer, wanted, now):
		return p, nil
	}
	if p, err = Issue(wanted, signer); err != nil {
		return Pair{}, err
	}
	return p, s.write(name, p)
}

// matches tells whether the certificate is for the key.
func (p Pair) matches() bool {
	public, ok := p.Certificate.PublicKey.(*ecdsa.PublicKey)
	return ok && public.Equal(p.Key.Public())
}

// good tells whether a certificate can be used for what is wanted, for some time yet.
func good(p Pair, signer *Pair, wanted *x509.Certificate, now time.Time) bool {
	if due(p.Certificate, now) || !p.matches() {
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

// due tells whether a certificate is to be made anew.
func due(c *x509.Certificate, now time.Time) bool {
	return now.Add(renewBefore).After(c.NotAfter) || now.Before(c.NotBefore)
}

// Client makes a client certificate. Nobody renews it.
func (k *Keys) Client(name string, groups []string, now time.Time) (Pair, error) {
	return Issue(clientTemplate(name, groups, now), &k.Authority)
}

// ReadAuthority reads the authority of a folder of keys, which must be there.
func ReadAuthority(path string) (Pair, error) {
	p, err := folder(path).read("ca")
	if err != nil {
		return Pair{}, fmt.Errorf("read the authority of %s: %w", path, err)
	}
	return p, nil
}

// IssueClient makes a client certificate that is good for some time, and not longer than its authority.
func IssueClient(authority *Pair, name string, groups []string, now time.Time, life time.Duration) (Pair, error) {
	t := clientTemplate(name, groups, now)
	if t.NotAfter = now.Add(life); authority.Certificate.NotAfter.Before(t.NotAfter) {
		t.NotAfter = authority.Certificate.NotAfter
	}
	return Issue(t, authority)
}

// Clients are the authorities whose client certificates are believed.
func (k *Keys) Clients() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(k.Authority.Certificate)
	return pool
}
