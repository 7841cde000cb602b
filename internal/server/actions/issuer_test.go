package actions

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/millrace/millrace/internal/server/auth"
)

func newIssuer(t *testing.T, o IssuerOptions) *Issuer {
	t.Helper()
	if o.Now == nil {
		o.Now = time.Now
	}
	i, err := NewIssuer(o)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func ecdsaKey(t *testing.T, c elliptic.Curve) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(c, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func rsaKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// issue returns a token that is valid for an hour.
func issue(t *testing.T, i *Issuer) string {
	t.Helper()
	now := time.Now()
	token, err := i.sign(claims{RegisteredClaims: jwt.RegisteredClaims{
		Issuer: i.o.Names[0], IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(time.Hour)),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestTokensCanBeSignedWithTheUsualKindsOfKeys(t *testing.T) {
	for algorithm, key := range map[string]crypto.Signer{
		"RS256": rsaKey(t), "ES256": ecdsaKey(t, elliptic.P256()), "ES384": ecdsaKey(t, elliptic.P384()), "ES512": ecdsaKey(t, elliptic.P521()),
	} {
		i := newIssuer(t, IssuerOptions{Key: key, Names: []string{"https://a.example"}})
		if _, err := i.read(issue(t, i)); err != nil {
			t.Errorf("%s: %v", algorithm, err)
		}
		if got := i.algorithms(); len(got) != 1 || got[0] != algorithm {
			t.Errorf("%s: the algorithms are %v", algorithm, got)
		}
	}
	if _, err := NewIssuer(IssuerOptions{Key: ecdsaKey(t, elliptic.P224()), Names: []string{"a"}}); err == nil {
		t.Error("a curve that no algorithm uses is accepted")
	}
}

func TestTokensOfAReplacedKeyAndOfAnEarlierIssuerAreAccepted(t *testing.T) {
	before := newIssuer(t, IssuerOptions{Key: rsaKey(t), Names: []string{"https://before.example"}})
	token := issue(t, before)
	key := ecdsaKey(t, elliptic.P256())
	for name, c := range map[string]struct {
		o    IssuerOptions
		want error
	}{
		"both are known":        {IssuerOptions{Keys: []crypto.PublicKey{before.o.Key.Public()}, Names: []string{"https://now.example", "https://before.example"}}, nil},
		"the key is unknown":    {IssuerOptions{Names: []string{"https://now.example", "https://before.example"}}, auth.ErrUnauthorized},
		"the issuer is another": {IssuerOptions{Keys: []crypto.PublicKey{before.o.Key.Public()}, Names: []string{"https://now.example"}}, auth.ErrUnknownToken},
	} {
		c.o.Key = key
		if _, err := newIssuer(t, c.o).read(token); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

func TestATokenIsNotVerifiedWithAKeyOfAnotherKind(t *testing.T) {
	key := rsaKey(t)
	i := newIssuer(t, IssuerOptions{Key: key, Names: []string{"https://a.example"}})
	// Signed with a secret that everybody knows: the public key.
	forged := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"iss": "https://a.example", "exp": time.Now().Add(time.Hour).Unix()})
	forged.Header["kid"] = i.keys[0].id
	token, err := forged.SignedString(i.keys[0].public.(*rsa.PublicKey).N.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := i.read(token); !errors.Is(err, auth.ErrUnauthorized) {
		t.Errorf("got %v", err)
	}
}

func TestAllKeysArePublished(t *testing.T) {
	i := newIssuer(t, IssuerOptions{Key: rsaKey(t), Keys: []crypto.PublicKey{ecdsaKey(t, elliptic.P256()).Public()}, Names: []string{"a"}, KeysURI: "https://keys.example/all"})
	documents, err := i.Documents("127.0.0.1:6443")
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) (v map[string]any) {
		w := httptest.NewRecorder()
		documents[path].ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	about := get("/.well-known/openid-configuration")
	if about["jwks_uri"] != "https://keys.example/all" {
		t.Errorf("the keys are at %v", about["jwks_uri"])
	}
	if keys := get(KeysPath)["keys"].([]any); len(keys) != 2 || keys[0].(map[string]any)["kty"] != "RSA" || keys[1].(map[string]any)["kty"] != "EC" {
		t.Errorf("the keys are %v", keys)
	}
}

func TestAnAdministratorBoundsTheLifeOfTokens(t *testing.T) {
	i := newIssuer(t, IssuerOptions{Key: ecdsaKey(t, elliptic.P256()), Names: []string{"a"}, MaxLife: 2 * time.Hour})
	var warnings []string
	warn := func(text string) { warnings = append(warnings, text) }
	for seconds, want := range map[int64]time.Duration{3600: time.Hour, 86400: 2 * time.Hour} {
		got, err := i.lifeOf(&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, warn)
		if err != nil || got != want {
			t.Errorf("%d s: got %v and %v, want %v", seconds, got, err, want)
		}
	}
	if len(warnings) != 1 || warnings[0] != "requested expiration of 86400 seconds shortened to 7200 seconds" {
		t.Errorf("the warnings are %q", warnings)
	}
}
