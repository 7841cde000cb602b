package planes

import (
	"crypto"
	"crypto/rsa"
	"crypto/x509"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/golang-jwt/jwt/v5"

	"github.com/millrace/millrace/internal/server/pki"
)

// mayWake reports whether a request is from somebody with a certificate or a token of service accounts that the keys of
// a sleeping plane have signed. What those may do, and whether a token is still worth anything, the plane finds out when
// it is awake. Whom only its objects know, such as the bearer of a bootstrap token, cannot wake it.
func mayWake(directory string, r *http.Request) bool {
	keys := filepath.Join(directory, "pki")
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 && signed(filepath.Join(keys, "ca.crt"), r.TLS.PeerCertificates) {
		return true
	}
	token, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !found {
		return false
	}
	key, err := pki.ReadSigner(filepath.Join(keys, "sa.key"))
	if err != nil {
		return false
	}
	_, err = jwt.Parse(token, func(*jwt.Token) (any, error) { return key.Public(), nil }, jwt.WithValidMethods(methodsOf(key)))
	return err == nil
}

// signed reports whether the authority in a file has signed a client's certificate.
func signed(file string, chain []*x509.Certificate) bool {
	authority, err := pki.ReadCertificate(file)
	if err != nil {
		return false
	}
	o := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	o.Roots.AddCert(authority)
	for _, c := range chain[1:] {
		o.Intermediates.AddCert(c)
	}
	_, err = chain[0].Verify(o)
	return err == nil
}

// methodsOf returns the ways in which a key signs tokens.
func methodsOf(key crypto.Signer) []string {
	if _, ok := key.Public().(*rsa.PublicKey); ok {
		return []string{"RS256"}
	}
	return []string{"ES256", "ES384", "ES512"}
}
