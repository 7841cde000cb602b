package actions

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http/httptest"
	"testing"

	"github.com/golang-jwt/jwt/v5"
)

func TestOthersCanVerifyTokensWithThePublishedKey(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i, err := NewIssuer(IssuerOptions{Key: key, Names: []string{"https://kubernetes.example"}})
	if err != nil {
		t.Fatal(err)
	}
	documents, err := i.Documents("127.0.0.1:6443")
	if err != nil {
		t.Fatal(err)
	}
	read := func(path string, into any) {
		w := httptest.NewRecorder()
		documents[path].ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
			t.Fatal(err)
		}
	}
	var about struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	read("/.well-known/openid-configuration", &about)
	if about.Issuer != "https://kubernetes.example" || about.Keys != "https://127.0.0.1:6443"+KeysPath {
		t.Errorf("it says %+v", about)
	}
	token, err := i.sign(&claims{RegisteredClaims: jwt.RegisteredClaims{Subject: "somebody"}})
	if err != nil {
		t.Fatal(err)
	}
	var keys struct {
		Keys []struct{ Kid, X, Y string }
	}
	read(KeysPath, &keys)
	got, err := jwt.ParseWithClaims(token, &claims{}, func(t *jwt.Token) (any, error) {
		for _, k := range keys.Keys {
			if k.Kid != t.Header["kid"] {
				continue
			}
			x, _ := base64.RawURLEncoding.DecodeString(k.X)
			y, _ := base64.RawURLEncoding.DecodeString(k.Y)
			return ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append(append([]byte{4}, x...), y...))
		}
		return nil, jwt.ErrTokenUnverifiable
	})
	if err != nil || !got.Valid {
		t.Errorf("the token is not valid: %v", err)
	}
}
