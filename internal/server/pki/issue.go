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
	"fmt"
	"math/big"
	"net"
	"time"
)

func authorityTemplate(t *x509.Certificate) {
	t.Subject = pkix.Name{CommonName: "millrace-ca"}
	t.IsCA, t.BasicConstraintsValid = true, true
	t.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	t.NotAfter = t.NotBefore.Add(authorityLife)
}

func proxyAuthorityTemplate(t *x509.Certificate) {
	authorityTemplate(t)
	t.Subject = pkix.Name{CommonName: "front-proxy-ca"}
}

// ProxyName is the common name of the front proxy's certificate.
const ProxyName = "front-proxy-client"

func proxyTemplate(t *x509.Certificate) {
	t.Subject = pkix.Name{CommonName: ProxyName}
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
}

func servingTemplate(t *x509.Certificate, hosts []string) {
	t.Subject = pkix.Name{CommonName: "kube-apiserver"}
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} // and not for clients: a stolen serving key must not give access to the API
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

func clientTemplate(name string, groups []string, now time.Time) *x509.Certificate {
	t := template(now)
	t.Subject = pkix.Name{CommonName: name, Organization: groups}
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return t
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

// Issue makes a key and a certificate for it, signed by signer; self-signed if signer is nil.
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

// TLS converts the pair for crypto/tls.
func (p Pair) TLS() *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{p.Certificate.Raw}, PrivateKey: p.Key, Leaf: p.Certificate}
}
