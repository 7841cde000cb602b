package legacytoken

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"fmt"

	"github.com/golang-jwt/jwt/v5"
	corev1 "k8s.io/api/core/v1"
)

// issuer is the issuer of tokens in secrets.
const issuer = "kubernetes/serviceaccount"

// methods are the signing methods by the size of an elliptic curve, as RFC 7518 says.
var methods = map[int]jwt.SigningMethod{256: jwt.SigningMethodES256, 384: jwt.SigningMethodES384, 521: jwt.SigningMethodES512}

// sign makes the token of an account in a secret. It has the claims that Kubernetes gives it, and never expires.
func sign(key crypto.Signer, a *corev1.ServiceAccount, secret string) (string, error) {
	var method jwt.SigningMethod
	switch public := key.Public().(type) {
	case *rsa.PublicKey:
		method = jwt.SigningMethodRS256
	case *ecdsa.PublicKey:
		method = methods[public.Curve.Params().BitSize]
	}
	if method == nil {
		return "", fmt.Errorf("a %T cannot sign tokens of service accounts: it must be an RSA key, or an ECDSA key on P-256, P-384 or P-521", key)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return "", fmt.Errorf("name the key of tokens: %w", err)
	}
	sum := sha256.Sum256(der)
	token := jwt.NewWithClaims(method, jwt.MapClaims{
		"iss": issuer, "sub": "system:serviceaccount:" + a.Namespace + ":" + a.Name,
		"kubernetes.io/serviceaccount/namespace":            a.Namespace,
		"kubernetes.io/serviceaccount/secret.name":          secret,
		"kubernetes.io/serviceaccount/service-account.name": a.Name,
		"kubernetes.io/serviceaccount/service-account.uid":  string(a.UID),
	})
	token.Header["kid"] = base64.RawURLEncoding.EncodeToString(sum[:])
	return token.SignedString(key)
}
