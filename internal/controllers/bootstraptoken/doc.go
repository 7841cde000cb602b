// Package bootstraptoken maintains bootstrap tokens, with which new nodes join: Secrets of the type
// bootstrap.kubernetes.io/token in kube-system.
//
// Guarantees:
//
//   - The ConfigMap cluster-info in kube-public, which everybody may read, has a signature of its kubeconfig for each
//     valid signing token, and no other. With it a client that knows the token can verify that the kubeconfig is the
//     cluster's.
//   - A token is deleted when it expires.
//
// As in Kubernetes these loops are off by default. The all-in-one cluster turns them on.
package bootstraptoken

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

const (
	signerName  = "bootstrap-signer-controller"
	cleanerName = "token-cleaner-controller"

	tokenType      = "bootstrap.kubernetes.io/token"
	tokenNamespace = "kube-system"
	infoNamespace  = "kube-public"
	infoName       = "cluster-info"
	kubeconfigKey  = "kubeconfig"
	signaturePart  = "jws-kubeconfig-"
)

// secretName matches the name of a token's Secret, which has the public half of the token.
var secretName = regexp.MustCompile(`^bootstrap-token-([a-z0-9]{6})$`)

// tokens returns the cache of all bootstrap tokens.
func tokens(c *loop.Clients) *informer.Shared[*corev1.Secret] {
	return loop.Informer(c, informer.For(c.Kube.CoreV1().Secrets(tokenNamespace)), loop.Selection{Fields: "type=" + tokenType})
}

// expiry returns when a token expires, if it does. One with an invalid time has expired.
func expiry(s *corev1.Secret) (at time.Time, ends bool) {
	text := string(s.Data["expiration"])
	if text == "" {
		return time.Time{}, false
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, true
	}
	return at, true
}

// signingToken returns the two halves of a token that may sign.
func signingToken(s *corev1.Secret, now time.Time) (id, secret string, ok bool) {
	match := secretName.FindStringSubmatch(s.Name)
	if match == nil || s.DeletionTimestamp != nil {
		return "", "", false
	}
	if at, ends := expiry(s); ends && !now.Before(at) {
		return "", "", false
	}
	id, secret = string(s.Data["token-id"]), string(s.Data["token-secret"])
	return id, secret, id == match[1] && secret != "" && string(s.Data["usage-bootstrap-signing"]) == "true"
}

// sign signs a text with a token: a JWS (RFC 7515) with detached payload.
func sign(text, id, secret string) string {
	encode := base64.RawURLEncoding.EncodeToString
	header := encode([]byte(`{"alg":"HS256","kid":"` + id + `"}`))
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(header + "." + encode([]byte(text))))
	return header + ".." + encode(mac.Sum(nil))
}
