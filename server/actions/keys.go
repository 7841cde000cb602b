package actions

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
)

// KeysPath is where the keys are served that tokens are signed with.
const KeysPath = "/openid/v1/jwks"

// Documents are what those read who check tokens on their own: who issues them, and with which key. The address is where others reach
// the server.
func (i *Issuer) Documents(address string) (map[string]http.Handler, error) {
	key, err := publicKey(&i.Key.PublicKey)
	if err != nil {
		return nil, err
	}
	keys, err := document("application/jwk-set+json", map[string]any{"keys": []any{key}})
	if err != nil {
		return nil, err
	}
	about, err := document("application/json", map[string]any{
		"issuer": i.Name, "jwks_uri": "https://" + address + KeysPath,
		"response_types_supported": []string{"id_token"}, "subject_types_supported": []string{"public"},
		"id_token_signing_alg_values_supported": []string{signing.Alg()},
	})
	if err != nil {
		return nil, err
	}
	return map[string]http.Handler{KeysPath: keys, "/.well-known/openid-configuration": about}, nil
}

// publicKey describes a key as RFC 7517 has it.
func publicKey(key *ecdsa.PublicKey) (map[string]string, error) {
	point, err := key.Bytes()
	if err != nil {
		return nil, fmt.Errorf("describe the key of tokens: %w", err)
	}
	id, err := keyID(key)
	if err != nil {
		return nil, err
	}
	text, half := base64.RawURLEncoding.EncodeToString, len(point)/2
	return map[string]string{
		"use": "sig", "kty": "EC", "crv": "P-256", "alg": signing.Alg(), "kid": id,
		"x": text(point[1 : 1+half]), "y": text(point[1+half:]), // behind the byte that says that both are there
	}, nil
}

// keyID tells keys apart.
func keyID(key *ecdsa.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", fmt.Errorf("name the key of tokens: %w", err)
	}
	sum := sha256.Sum256(der)
	return base64.RawURLEncoding.EncodeToString(sum[:]), nil
}

func document(contentType string, v any) (http.Handler, error) {
	text, err := json.Marshal(v)
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Cache-Control", "public, max-age=3600")
		_, _ = w.Write(text)
	}), err
}
