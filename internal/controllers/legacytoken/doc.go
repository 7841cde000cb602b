// Package legacytoken takes care of service account tokens in secrets (of the type
// kubernetes.io/service-account-token), which never expire.
//
// Guarantees of the maker (serviceaccount-token-controller):
//
//   - Such a secret of an existing account gets a token, the namespace and the API server's CA certificates. What
//     somebody else has written there is replaced, except the token.
//   - A secret whose account does not exist, or has been replaced by another, is deleted.
//   - Without a key it does not run.
//
// Guarantees of the cleaner (legacy-serviceaccount-token-cleaner-controller), once a day:
//
//   - It only touches secrets that their account lists, which is how Kubernetes before 1.24 made them, that are older
//     than the period, that no pod uses, and whose token was not used for the period. The API server labels a secret
//     with the day of the last use.
//   - Such a secret is first labelled as invalid: the API server refuses its token then. Only when it was invalid and
//     unused for another period it is deleted.
//   - Nothing happens before the API server has recorded uses for the whole period.
package legacytoken

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

// secretsOf returns the secrets with tokens of service accounts.
func secretsOf(c *loop.Clients) *informer.Shared[*corev1.Secret] {
	return loop.Informer(c, informer.For(c.Kube.CoreV1().Secrets("")), loop.Selection{Fields: "type=" + string(corev1.SecretTypeServiceAccountToken)})
}

// accountOf returns the account of a secret: nil if it does not exist, or is another one than that for which the secret
// was made.
func accountOf(accounts *informer.Shared[*corev1.ServiceAccount], s *corev1.Secret) *corev1.ServiceAccount {
	a, ok := accounts.Lookup(loop.Key{Namespace: s.Namespace, Name: s.Annotations[corev1.ServiceAccountNameKey]})
	if !ok || !belongs(s, a) {
		return nil
	}
	return a
}

// belongs reports whether a secret that names an account is for this one, and not for one that had the name before.
func belongs(s *corev1.Secret, a *corev1.ServiceAccount) bool {
	uid := s.Annotations[corev1.ServiceAccountUIDKey]
	return uid == "" || uid == string(a.UID)
}
