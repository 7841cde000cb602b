package actions

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"slices"

	"github.com/golang-jwt/jwt/v5"
)

// KeysPath is the path of the public keys of service account tokens.
const KeysPath = "/openid/v1/jwks"

// key verifies tokens.
type key struct {
	id     string
	method jwt.SigningMethod
	public crypto.PublicKey
}

// methods are the signing methods by the size of an elliptic curve, as RFC 7518 says.
var methods = map[int]jwt.SigningMethod{256: jwt.SigningMethodES256, 384: jwt.SigningMethodES384, 521: jwt.SigningMethodES512}

func newKey(public crypto.PublicKey) (key, error) {
	k := key{public: public}
	switch p := public.(type) {
	case *rsa.PublicKey:
		k.method = jwt.SigningMethodRS256
	case *ecdsa.PublicKey:
		k.method = methods[p.Curve.Params().BitSize]
	}
	if k.method == nil {
		return key{}, fmt.Errorf("a %T cannot be the key of service account tokens: it must be an RSA key, or an ECDSA key on P-256, P-384 or P-521", public)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return key{}, fmt.Errorf("name the key of tokens: %w", err)
	}
	sum := sha256.Sum256(der)
	k.id = base64.RawURLEncoding.EncodeToString(sum[:])
	return k, nil
}

// algorithms are those of all keys.
func (i *Issuer) algorithms() []string {
	var all []string
	for _, k := range i.keys {
		all = append(all, k.method.Alg())
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// keysOf returns the keys that may have signed a token: the one that it names, or else all that have its algorithm.
func (i *Issuer) keysOf(t *jwt.Token) (any, error) {
	var set jwt.VerificationKeySet
	for _, k := range i.keys {
		if k.method.Alg() != t.Method.Alg() {
			continue
		}
		if k.id == t.Header["kid"] {
			return k.public, nil
		}
		set.Keys = append(set.Keys, k.public)
	}
	return set, nil
}

// Documents returns the OpenID discovery documents, with which others verify tokens: the issuer and the public keys.
// address is the server's external address.
func (i *Issuer) Documents(address string) (map[string]http.Handler, error) {
	var described []map[string]string
	for _, k := range i.keys {
		d, err := k.describe()
		if err != nil {
			return nil, err
		}
		described = append(described, d)
	}
	keys, err := document("application/jwk-set+json", map[string]any{"keys": described})
	if err != nil {
		return nil, err
	}
	uri := i.o.KeysURI
	if uri == "" {
		uri = "https://" + address + KeysPath
	}
	about, err := document("application/json", map[string]any{
		"issuer": i.o.Names[0], "jwks_uri": uri,
		"response_types_supported": []string{"id_token"}, "subject_types_supported": []string{"public"},
		"id_token_signing_alg_values_supported": i.algorithms(),
	})
	if err != nil {
		return nil, err
	}
	return map[string]http.Handler{KeysPath: keys, "/.well-known/openid-configuration": about}, nil
}

// describe describes a key as in RFC 7517.
func (k key) describe() (map[string]string, error) {
	d, text := map[string]string{"use": "sig", "alg": k.method.Alg(), "kid": k.id}, base64.RawURLEncoding.EncodeToString
	switch p := k.public.(type) {
	case *rsa.PublicKey:
		d["kty"], d["n"], d["e"] = "RSA", text(p.N.Bytes()), text(big.NewInt(int64(p.E)).Bytes())
	case *ecdsa.PublicKey:
		point, err := p.Bytes()
		if err != nil {
			return nil, fmt.Errorf("describe the key of tokens: %w", err)
		}
		half := len(point) / 2
		d["kty"], d["crv"] = "EC", p.Curve.Params().Name
		d["x"], d["y"] = text(point[1:1+half]), text(point[1+half:]) // after the byte that says that the point is uncompressed
	}
	return d, nil
}

func document(contentType string, v any) (http.Handler, error) {
	text, err := json.Marshal(v)
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Cache-Control", "public, max-age=3600")
		_, _ = w.Write(text)
	}), err
}
