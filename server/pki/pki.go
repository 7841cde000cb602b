// Package pki makes and keeps the keys of a small cluster: an authority, the server's certificate, an administrator's
// client certificate, and the key that signs service account tokens.
//
// What is in the folder is used as it is; what is missing, or about to expire, is made. Keys are readable by their owner
// alone. Without a folder everything lives in memory.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
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

// Keys are all that a cluster needs.
type Keys struct {
	Authority Pair
	Serving   Pair
	Admin     Pair
	// Signing signs service account tokens.
	Signing *ecdsa.PrivateKey
}

// Open reads the keys of a folder, and makes what is missing. hosts are the names and addresses that the server is
// reached at. An empty folder name keeps everything in memory.
func Open(folder string, hosts []string, now time.Time) (*Keys, error) {
	if folder != "" {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, fmt.Errorf("make the folder of certificates: %w", err)
		}
	}
	k := &Keys{}
	var err error
	if k.Authority, err = pair(folder, "ca", nil, now, authorityTemplate); err != nil {
		return nil, err
	}
	serving := func(t *x509.Certificate) { servingTemplate(t, hosts) }
	if k.Serving, err = pair(folder, "apiserver", &k.Authority, now, serving); err != nil {
		return nil, err
	}
	if k.Admin, err = pair(folder, "admin", &k.Authority, now, adminTemplate); err != nil {
		return nil, err
	}
	k.Signing, err = signingKey(folder)
	return k, err
}

func authorityTemplate(t *x509.Certificate) {
	t.Subject = pkix.Name{CommonName: "millrace-ca"}
	t.IsCA, t.BasicConstraintsValid = true, true
	t.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	t.NotAfter = t.NotBefore.Add(authorityLife)
}

func servingTemplate(t *x509.Certificate, hosts []string) {
	t.Subject = pkix.Name{CommonName: "kube-apiserver"}
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} // and not to act as a client: whoever has it shall only serve
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else if h != "" {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
}

func adminTemplate(t *x509.Certificate) {
	t.Subject = pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}}
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
}

// pair reads a certificate and its key, or makes them.
func pair(folder, name string, signer *Pair, now time.Time, fill func(*x509.Certificate)) (Pair, error) {
	wanted := template(now)
	fill(wanted)
	if folder != "" {
		p, err := readPair(folder, name)
		switch {
		case err == nil && good(p, signer, wanted, now):
			return p, nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return Pair{}, err
		case err == nil && signer == nil && now.Before(p.Certificate.NotAfter):
			return p, nil // an authority is never replaced while it is valid: everybody would have to learn the new one
		}
	}
	p, err := Issue(wanted, signer)
	if err != nil || folder == "" {
		return p, err
	}
	if err := write(filepath.Join(folder, name+".key"), p.KeyPEM, 0o600); err != nil {
		return Pair{}, err
	}
	return p, write(filepath.Join(folder, name+".crt"), p.CertPEM, 0o644)
}

// good tells that a certificate can be used for what is wanted.
func good(p Pair, signer *Pair, wanted *x509.Certificate, now time.Time) bool {
	if now.Add(renewBefore).After(p.Certificate.NotAfter) || now.Before(p.Certificate.NotBefore) {
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

func template(now time.Time) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		panic("pki: no randomness: " + err.Error())
	}
	return &x509.Certificate{
		SerialNumber: serial,
		NotBefore:    now.Add(-backdate), NotAfter: now.Add(certificateLife),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
	}
}

// Issue makes a key and a certificate for it, signed by signer, or by itself if that is nil.
func Issue(t *x509.Certificate, signer *Pair) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("make a key: %w", err)
	}
	parent, by := t, crypto.Signer(key)
	if signer != nil {
		parent, by = signer.Certificate, signer.Key
	}
	der, err := x509.CreateCertificate(rand.Reader, t, parent, key.Public(), by)
	if err != nil {
		return Pair{}, fmt.Errorf("make the certificate of %s: %w", t.Subject.CommonName, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return Pair{}, err
	}
	keyPEM, err := encodeKey(key)
	return Pair{Certificate: cert, Key: key, KeyPEM: keyPEM, CertPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, err
}

// Client makes a client certificate.
func (k *Keys) Client(name string, groups []string, now time.Time) (Pair, error) {
	t := template(now)
	t.Subject = pkix.Name{CommonName: name, Organization: groups}
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return Issue(t, &k.Authority)
}

// TLS is the server's configuration: client certificates of the authority are asked for, and checked by whoever
// authenticates.
func (k *Keys) TLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		Certificates: []tls.Certificate{{
			Certificate: [][]byte{k.Serving.Certificate.Raw}, PrivateKey: k.Serving.Key, Leaf: k.Serving.Certificate,
		}},
		ClientAuth: tls.RequestClientCert,
		ClientCAs:  k.Clients(),
		NextProtos: []string{"h2", "http/1.1"},
	}
}

// Clients are the authorities whose client certificates are believed.
func (k *Keys) Clients() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(k.Authority.Certificate)
	return pool
}
