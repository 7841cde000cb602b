package auth

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/asn1"
)

// verified remembers certificates that have been found good: a check costs 120 µs, and a client sends the same one with
// every connection. All requests of a connection have one certificate in memory, so that it is known by where it lies;
// by what it says it would have to be hashed each time.
type verified struct {
	mu sync.RWMutex // guards both
	// known is by hash.
	known map[[sha256.Size]byte]*holder
	// placed keeps certificates alive, so that nothing else can come to lie in their places.
	placed map[*x509.Certificate]*holder
}

// holder is whom a certificate names, until when, and by which authorities.
type holder struct {
	user  User
	until time.Time
	roots *x509.CertPool
}

// What bounds the memory. Certificates of connections take some kilobytes each.
const (
	mostKnown  = 4096
	mostPlaced = 512
)

// find returns the user of a certificate that was found good by the same authorities.
func (v *verified) find(c *x509.Certificate, roots *x509.CertPool, now time.Time) (User, bool) {
	v.mu.RLock()
	h := v.placed[c]
	v.mu.RUnlock()
	if h == nil {
		key := sha256.Sum256(c.Raw)
		v.mu.Lock()
		defer v.mu.Unlock()
		if h = v.known[key]; h == nil {
			return User{}, false
		}
		v.place(c, h)
	}
	return h.user, h.roots == roots && now.Before(h.until)
}

func (v *verified) keep(c *x509.Certificate, h *holder) {
	key := sha256.Sum256(c.Raw)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.known == nil || len(v.known) >= mostKnown {
		v.known = map[[sha256.Size]byte]*holder{}
	}
	v.known[key] = h
	v.place(c, h)
}

// place is called with mu locked. When there is no room, any other goes.
func (v *verified) place(c *x509.Certificate, h *holder) {
	if v.placed == nil {
		v.placed = map[*x509.Certificate]*holder{}
	}
	for other := range v.placed {
		if len(v.placed) < mostPlaced {
			break
		}
		delete(v.placed, other)
	}
	v.placed[c] = h
}

// certificate finds out whom a chain names. The whole chain's time bounds how long that is believed.
func (re *Requests) certificate(chain []*x509.Certificate) (User, error) {
	now := re.now()
	leaf, roots := chain[0], re.Clients()
	if u, ok := re.verified.find(leaf, roots, now); ok {
		return u, nil
	}
	o := x509.VerifyOptions{
		Roots: roots, Intermediates: x509.NewCertPool(), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, c := range chain[1:] {
		o.Intermediates.AddCert(c)
	}
	chains, err := leaf.Verify(o)
	if err != nil {
		return User{}, errors.Join(ErrUnauthorized, err)
	}
	u, err := named(leaf)
	if err != nil {
		return User{}, errors.Join(ErrUnauthorized, err)
	}
	until := leaf.NotAfter
	for _, c := range chains[0] {
		if c.NotAfter.Before(until) {
			until = c.NotAfter
		}
	}
	re.verified.keep(leaf, &holder{u, until, roots})
	return u, nil
}

// CredentialID is the key of the extra field that tells by which credential a user came.
const CredentialID = "authentication.kubernetes.io/credential-id"

// uidOID identifies the part of a subject that is a user's UID.
var uidOID = asn1.X509UID()

// named is the user that a certificate names.
func named(c *x509.Certificate) (User, error) {
	if c.Subject.CommonName == "" {
		return User{}, errors.New("the certificate has no common name")
	}
	digest := sha256.Sum256(c.Raw)
	u := User{
		Name: c.Subject.CommonName, Groups: WithAuthenticated(c.Subject.Organization),
		Extra: map[string][]string{CredentialID: {"X509SHA256=" + hex.EncodeToString(digest[:])}},
	}
	for _, part := range c.Subject.Names {
		if !part.Type.Equal(uidOID) {
			continue
		}
		uid, ok := part.Value.(string)
		switch {
		case !ok:
			return User{}, errors.New("the UID in the certificate is not a text")
		case uid == "":
			return User{}, errors.New("the UID in the certificate is empty")
		case u.UID != "":
			return User{}, errors.New("the certificate has several UIDs")
		}
		u.UID = uid
	}
	return u, nil
}

func (re *Requests) now() time.Time {
	if re.Now != nil {
		return re.Now()
	}
	return time.Now()
}
