package auth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"testing"
	"time"
)

// authority signs certificates that are valid for an hour.
type authority struct {
	*testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	now  time.Time
}

func newAuthority(t *testing.T, now time.Time) *authority {
	a := &authority{T: t, now: now}
	a.key = a.newKey()
	a.cert = a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, NotAfter: now.Add(time.Hour)}, a.key)
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.Fatal(err)
	}
	return key
}

func (a *authority) sign(c *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	c.SerialNumber, c.NotBefore = big.NewInt(1), a.now.Add(-time.Minute)
	parent := c
	if a.cert != nil {
		parent = a.cert
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, a.key)
	if err != nil {
		a.Fatal(err)
	}
	return a.parse(der)
}

func (a *authority) parse(der []byte) *x509.Certificate {
	c, err := x509.ParseCertificate(der)
	if err != nil {
		a.Fatal(err)
	}
	return c
}

func (a *authority) client(name string, groups ...string) *x509.Certificate {
	return a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: name, Organization: groups}, NotAfter: a.now.Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, a.newKey())
}

func requestBy(c *x509.Certificate) *http.Request {
	return &http.Request{Header: http.Header{}, TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c}}}
}

func TestACertificateIsBelievedUntilItEnds(t *testing.T) {
	now := time.Now()
	a := newAuthority(t, now)
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	r := &Requests{Clients: func() *x509.CertPool { return pool }, Now: func() time.Time { return now }}
	first := a.client("jane", "developers")
	for _, c := range []*x509.Certificate{first, first, a.parse(first.Raw), first} { // a second connection has it once more
		u, err := r.Authenticate(requestBy(c))
		if err != nil || u.Name != "jane" || !u.In("developers") || !u.In(Authenticated) {
			t.Fatalf("%v, %v", u, err)
		}
	}
	if u, err := r.Authenticate(requestBy(a.client("joe"))); err != nil || u.Name != "joe" || u.In("developers") {
		t.Errorf("%v, %v", u, err)
	}
	now = now.Add(2 * time.Hour)
	for _, c := range []*x509.Certificate{first, a.parse(first.Raw)} {
		if u, err := r.Authenticate(requestBy(c)); !errors.Is(err, ErrUnauthorized) {
			t.Errorf("after its end: %v, %v", u, err)
		}
	}
}

func TestACertificateOfAnotherAuthorityIsNotBelieved(t *testing.T) {
	now := time.Now()
	ours, theirs := newAuthority(t, now), newAuthority(t, now)
	pool := x509.NewCertPool()
	pool.AddCert(ours.cert)
	r := &Requests{Clients: func() *x509.CertPool { return pool }}
	c := theirs.client("jane", Masters)
	for range 2 {
		if u, err := r.Authenticate(requestBy(c)); !errors.Is(err, ErrUnauthorized) {
			t.Errorf("%v, %v", u, err)
		}
	}
}

func TestACertificateIsNoLongerBelievedWhenItsAuthorityIsTakenAway(t *testing.T) {
	now := time.Now()
	first, second := newAuthority(t, now), newAuthority(t, now)
	var pool *x509.CertPool
	trust := func(a *authority) {
		pool = x509.NewCertPool()
		pool.AddCert(a.cert)
	}
	r := &Requests{Clients: func() *x509.CertPool { return pool }}
	c := first.client("jane")
	for _, step := range []struct {
		trusted  *authority
		believed bool
	}{{first, true}, {second, false}, {first, true}} {
		trust(step.trusted)
		for range 2 { // the second time it is remembered
			if _, err := r.Authenticate(requestBy(c)); (err == nil) != step.believed {
				t.Errorf("believed: %v, want %v", err == nil, step.believed)
			}
		}
	}
}

func TestACertificateTellsItsOwnIDAndTheUIDOfItsUser(t *testing.T) {
	now := time.Now()
	a := newAuthority(t, now)
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	r := &Requests{Clients: func() *x509.CertPool { return pool }, Now: func() time.Time { return now }}
	signed := func(uids ...any) *x509.Certificate {
		subject := pkix.Name{CommonName: "jane"}
		for _, uid := range uids {
			subject.ExtraNames = append(subject.ExtraNames, pkix.AttributeTypeAndValue{Type: uidOID, Value: uid})
		}
		return a.sign(&x509.Certificate{Subject: subject, NotAfter: now.Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, a.newKey())
	}
	c := signed("1234")
	u, err := r.Authenticate(requestBy(c))
	if want := fmt.Sprintf("X509SHA256=%x", sha256.Sum256(c.Raw)); err != nil || u.UID != "1234" || len(u.Extra[CredentialID]) != 1 || u.Extra[CredentialID][0] != want {
		t.Errorf("%+v, %v", u, err)
	}
	for name, uids := range map[string][]any{"two UIDs": {"1", "2"}, "an empty one": {""}} {
		if u, err := r.Authenticate(requestBy(signed(uids...))); !errors.Is(err, ErrUnauthorized) {
			t.Errorf("%s: %+v, %v", name, u, err)
		}
	}
}

func TestManyCertificatesAreKnownInBoundedMemory(t *testing.T) {
	now := time.Now()
	a := newAuthority(t, now)
	v := &verified{}
	c := a.client("jane")
	v.keep(c, &holder{user: User{Name: "jane"}, until: now.Add(time.Hour)})
	for range 2 * mostPlaced {
		if u, ok := v.find(a.parse(c.Raw), nil, now); !ok || u.Name != "jane" {
			t.Fatalf("%v, %v", u, ok)
		}
	}
	if len(v.placed) > mostPlaced {
		t.Errorf("%d certificates are kept", len(v.placed))
	}
}

func BenchmarkKnownCertificate(b *testing.B) {
	now := time.Now()
	v := &verified{}
	c := &x509.Certificate{Raw: make([]byte, 700)}
	v.keep(c, &holder{user: User{Name: "jane"}, until: now.Add(time.Hour)})
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := v.find(c, nil, now); !ok {
			b.Fatal("not known")
		}
	}
}
