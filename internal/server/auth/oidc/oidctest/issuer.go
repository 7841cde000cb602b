// Package oidctest is a small issuer of tokens for tests, which serves its keys by TLS as OpenID Connect Discovery has
// it.
package oidctest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Issuer signs tokens. What it serves can be changed while it runs.
type Issuer struct {
	URL       string
	Authority string // its certificate, in PEM
	// Asked counts requests for the keys.
	Asked atomic.Int32
	// Claims answers at /claims, whoever asks; an empty answer is not found.
	Claims atomic.Pointer[string]

	mu    sync.Mutex // guards what follows
	down  bool
	name  string // as the discovery document says it
	where string // the keys, as the document says it
	next  int
	keys  []Key
}

// Key is a key pair of an issuer.
type Key struct {
	ID        string
	Algorithm string
	Private   crypto.Signer
}

// Start starts an issuer with one RSA key.
func Start(t testing.TB) *Issuer {
	t.Helper()
	i := &Issuer{}
	s := httptest.NewTLSServer(i)
	t.Cleanup(s.Close)
	i.URL, i.name, i.where = s.URL, s.URL, s.URL+"/keys"
	i.Authority = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	i.Rotate(t)
	return i
}

// NewKey makes a key for an algorithm. The issuer does not use it.
func NewKey(t testing.TB, id, algorithm string) Key {
	t.Helper()
	k := Key{ID: id, Algorithm: algorithm}
	var err error
	switch algorithm {
	case "ES256":
		k.Private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ES384":
		k.Private, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "ES512":
		k.Private, err = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	default:
		k.Private, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Rotate replaces all keys by a new one.
func (i *Issuer) Rotate(t testing.TB) {
	t.Helper()
	i.mu.Lock()
	i.next++
	id := fmt.Sprint("key-", i.next)
	i.mu.Unlock()
	i.Use(NewKey(t, id, "RS256"))
}

// Use replaces all keys. The first one signs.
func (i *Issuer) Use(keys ...Key) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = keys
}

// Key is the one that signs.
func (i *Issuer) Key() Key {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.keys[0]
}

// Down makes the issuer answer 503, or answer again.
func (i *Issuer) Down(down bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.down = down
}

// Say changes the discovery document: who it is of, and where the keys are.
func (i *Issuer) Say(name, keys string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.name, i.where = name, keys
}

// ServeHTTP implements http.Handler.
func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case i.down:
		http.Error(w, "down for repairs", http.StatusServiceUnavailable)
	case r.URL.Path == "/.well-known/openid-configuration", r.URL.Path == "/elsewhere":
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": i.name, "jwks_uri": i.where})
	case r.URL.Path == "/keys":
		i.Asked.Add(1)
		var all []any
		for _, k := range i.keys {
			all = append(all, k.Web())
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": all})
	case r.URL.Path == "/claims" && i.Claims.Load() != nil:
		_, _ = w.Write([]byte(*i.Claims.Load()))
	default:
		http.NotFound(w, r)
	}
}

// Web is the public half of a key as RFC 7517 has it.
func (k Key) Web() map[string]string {
	text := base64.RawURLEncoding.EncodeToString
	w := map[string]string{"kid": k.ID, "alg": k.Algorithm, "use": "sig"}
	switch key := k.Private.Public().(type) {
	case *rsa.PublicKey:
		w["kty"], w["n"], w["e"] = "RSA", text(key.N.Bytes()), text(big.NewInt(int64(key.E)).Bytes())
	case *ecdsa.PublicKey:
		point, _ := key.Bytes()
		half := len(point) / 2
		w["kty"], w["crv"], w["x"], w["y"] = "EC", key.Curve.Params().Name, text(point[1:1+half]), text(point[1+half:])
	}
	return w
}

// Token signs claims, besides those that every token has: good for an hour from now.
func (i *Issuer) Token(t testing.TB, claims map[string]any) string {
	t.Helper()
	all := jwt.MapClaims{"iss": i.URL, "exp": time.Now().Add(time.Hour).Unix(), "aud": "millrace", "sub": "alice"}
	maps.Copy(all, claims)
	return i.Key().Sign(t, all, nil)
}

// Sign signs claims as they are. Further headers replace those of the key.
func (k Key) Sign(t testing.TB, claims map[string]any, headers map[string]any) string {
	t.Helper()
	token := jwt.NewWithClaims(jwt.GetSigningMethod(k.Algorithm), jwt.MapClaims(claims))
	token.Header["kid"] = k.ID
	maps.Copy(token.Header, headers)
	text, err := token.SignedString(k.Private)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
