// Package bootstraptoken looks after the tokens by which new nodes join: secrets of the type bootstrap.kubernetes.io/token in
// kube-system.
//
// What is guaranteed:
//
//   - The config map cluster-info in kube-public, which anybody may read, carries a signature of its kubeconfig for each token that is
//     good and may sign, and no other: who knows the token can tell that the kubeconfig is the cluster's.
//   - A token is deleted when it expires.
//
// As in Kubernetes these loops are off by default; the cluster in one process has them on.
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

// secretName is how the secret of a token is called: by the half of the token that is public.
var secretName = regexp.MustCompile(`^bootstrap-token-([a-z0-9]{6})$`)

// tokens is the cache of all bootstrap tokens.
func tokens(c *loop.Clients) *informer.Shared[*corev1.Secret] {
	return loop.Informer(c, informer.For(c.Kube.CoreV1().Secrets(tokenNamespace)), loop.Selection{Fields: "type=" + tokenType})
}

// expiry is when a token ends, if it does. One that cannot be read has ended.
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

// signingToken takes a token apart that may sign.
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

// sign is a signature of a text by a token: JWS of RFC 7515 with the text left out, as clients expect it.
func sign(text, id, secret string) string {
	encode := base64.RawURLEncoding.EncodeToString
	header := encode([]byte(`{"alg":"HS256","kid":"` + id + `"}`))
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(header + "." + encode([]byte(text))))
	return header + ".." + encode(mac.Sum(nil))
}
