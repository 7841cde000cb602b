package millrace_test

import (
	"slices"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/millracetest"
)

// eventually waits until a condition is true.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: that has not happened within a minute", what)
		}
	}
}

func TestATokenInASecretIsMadeUsedRecordedAndRefused(t *testing.T) {
	cluster := millracetest.Start(t, millrace.Options{NoScheduler: true, Controllers: []string{"serviceaccount", "serviceaccount-token"}})
	kube := millracetest.Clientset(t, cluster)
	secrets, accounts := kube.CoreV1().Secrets("default"), kube.CoreV1().ServiceAccounts("default")
	account, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "builder"}, Secrets: []corev1.ObjectReference{{Name: "token"}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, owner := range map[string]string{"token": "builder", "stray": "nobody"} {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: owner}}, Type: corev1.SecretTypeServiceAccountToken}
		if _, err := secrets.Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	read := func() *corev1.Secret {
		s, err := secrets.Get(t.Context(), "token", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	var made *corev1.Secret
	eventually(t, "the secret gets a token", func() bool { made = read(); return len(made.Data["token"]) > 0 })
	if made.Annotations[corev1.ServiceAccountUIDKey] != string(account.UID) || string(made.Data["namespace"]) != "default" || string(made.Data["ca.crt"]) != string(cluster.Config().CAData) {
		t.Errorf("the secret has %v, %q and %d bytes of certificates", made.Annotations, made.Data["namespace"], len(made.Data["ca.crt"]))
	}
	eventually(t, "a secret without an account is deleted", func() bool {
		_, err := secrets.Get(t.Context(), "stray", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})

	config := rest.AnonymousClientConfig(cluster.Config())
	config.BearerToken = string(made.Data["token"])
	holder, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ask := func() (authenticationv1.UserInfo, error) {
		r, err := holder.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil {
			return authenticationv1.UserInfo{}, err
		}
		return r.Status.UserInfo, nil
	}
	user, err := ask()
	if err != nil || user.Username != "system:serviceaccount:default:builder" || user.UID != string(account.UID) || !slices.Contains(user.Groups, "system:serviceaccounts:default") {
		t.Fatalf("the token is that of %+v, %v", user, err)
	}
	if day, err := time.Parse(time.DateOnly, read().Labels["kubernetes.io/legacy-token-last-used"]); err != nil || time.Since(day) > 48*time.Hour {
		t.Errorf("the day of the last use is %v, %v", day, err)
	}

	label := func(value any) {
		patch := []byte(`{"metadata":{"labels":{"kubernetes.io/legacy-token-invalid-since":null}}}`)
		if value != nil {
			patch = []byte(`{"metadata":{"labels":{"kubernetes.io/legacy-token-invalid-since":"2026-01-01"}}}`)
		}
		if _, err := secrets.Patch(t.Context(), "token", "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	refused := func() bool { _, err := ask(); return apierrors.IsUnauthorized(err) }
	label(true)
	eventually(t, "a token that is marked as invalid is refused", refused)
	label(nil)
	eventually(t, "it is accepted without the mark", func() bool { _, err := ask(); return err == nil })
	if err := secrets.Delete(t.Context(), "token", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a token whose secret is gone is refused", refused)
	eventually(t, "the account does not list the secret any more", func() bool {
		a, err := accounts.Get(t.Context(), "builder", metav1.GetOptions{})
		return err == nil && len(a.Secrets) == 0
	})
}
