package pki

import (
	"crypto/tls"
	"net"
	"testing"
	"time"
)

// namedPair makes a certificate with a common name and domains.
func namedPair(t *testing.T, name string, domains ...string) *tls.Certificate {
	t.Helper()
	wanted := template(time.Now())
	wanted.Subject.CommonName, wanted.DNSNames = name, domains
	p, err := Issue(wanted, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p.TLS()
}

func TestTheCertificateOfANameIsServedToClientsThatAskForIt(t *testing.T) {
	get := func(c *tls.Certificate) func() *tls.Certificate { return func() *tls.Certificate { return c } }
	o := ServerOptions{Serving: get(namedPair(t, "default")), Clients: openKeys(t, "", time.Now()).Clients}
	o.Named = []NamedCertificate{
		{Serving: get(namedPair(t, "contained.example", "also.example", "*.wild.example"))},
		{Serving: get(namedPair(t, "later", "also.example"))},
		{Names: []string{"given.wild.example", "*.given.example", "Upper.Example"}, Serving: get(namedPair(t, "given", "unused.example"))},
		{Names: []string{"contained.example"}, Serving: get(namedPair(t, "stronger"))},
		{Names: []string{"127.0.0.1"}, Serving: get(namedPair(t, "address"))},
	}
	server := ServerTLS(o)
	for name, want := range map[string]string{
		"": "default", "other.example": "default", "unused.example": "default", "wild.example": "default", "a.b.wild.example": "default",
		"also.example": "contained.example", "some.wild.example": "contained.example", "given.wild.example": "given", "a.given.example": "given",
		"UPPER.example": "given", "contained.example": "stronger",
	} {
		got, _ := handshake(t, server, &tls.Config{ServerName: name, InsecureSkipVerify: true})
		if got.Subject.CommonName != want {
			t.Errorf("who asks for %q gets the certificate of %s, not of %s", name, got.Subject.CommonName, want)
		}
	}
	for address, want := range map[string]string{"127.0.0.1": "address", "127.0.0.2": "default"} {
		got, err := server.GetCertificate(&tls.ClientHelloInfo{Conn: localConn{address: address}})
		if err != nil || got.Leaf.Subject.CommonName != want {
			t.Errorf("who calls %s without a name gets the certificate of %s, not of %s", address, got.Leaf.Subject.CommonName, want)
		}
	}
}

// localConn is a connection that has only a local address.
type localConn struct {
	net.Conn
	address string
}

func (c localConn) LocalAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(c.address), Port: 6443} }

func TestOnlyTheChosenVersionsSuitesAndCurvesAreAccepted(t *testing.T) {
	keys := openKeys(t, "", time.Now())
	server := ServerTLS(ServerOptions{Serving: keys.Serving.TLS, Clients: keys.Clients, MinVersion: tls.VersionTLS11,
		Suites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384}, Curves: []tls.CurveID{tls.CurveP384}})
	for _, c := range []struct {
		what string
		o    *tls.Config
		ok   bool
	}{
		{"TLS 1.0", &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS10}, false},
		{"another suite", &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}}, false},
		{"another curve", &tls.Config{CurvePreferences: []tls.CurveID{tls.X25519}}, false},
		{"the suite", &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384}}, true},
		{"the curve", &tls.Config{CurvePreferences: []tls.CurveID{tls.CurveP384}}, true},
	} {
		c.o.InsecureSkipVerify = true
		if err := tryHandshake(t, server, c.o); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

// tryHandshake makes a TLS handshake and returns the client's error.
func tryHandshake(t *testing.T, server, client *tls.Config) error {
	t.Helper()
	near, far := net.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = tls.Server(far, server).HandshakeContext(t.Context())
		far.Close()
	}()
	err := tls.Client(near, client).HandshakeContext(t.Context())
	near.Close()
	<-ended
	return err
}
