package bootstraptoken_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/controllers/bootstraptoken"
	"github.com/millrace/millrace/internal/controllers/internal/looptest"
	"github.com/millrace/millrace/millracetest"
)

const secret = "0123456789abcdef"

func token(id string, ends time.Time, data map[string]string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + id}, Type: corev1.SecretTypeBootstrapToken, Data: map[string][]byte{
		"token-id": []byte(id), "token-secret": []byte(secret), "usage-bootstrap-signing": []byte("true"),
	}}
	if !ends.IsZero() {
		s.Data["expiration"] = []byte(ends.Format(time.RFC3339))
	}
	for k, v := range data {
		s.Data[k] = []byte(v)
	}
	return s
}

// verify checks a signature as clients do: with the payload put back.
func verify(t *testing.T, signature, text string) {
	t.Helper()
	parts := strings.Split(signature, ".")
	if len(parts) != 3 || parts[1] != "" {
		t.Fatalf("the signature is %q", signature)
	}
	decode := base64.RawURLEncoding.DecodeString
	header, err := decode(parts[0])
	if err != nil {
		t.Fatal(err)
	}
	var h map[string]string
	if err := json.Unmarshal(header, &h); err != nil || h["alg"] != "HS256" || h["kid"] != "aaaaaa" {
		t.Errorf("the header is %s (%v)", header, err)
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(text))))
	if got, err := decode(parts[2]); err != nil || !hmac.Equal(got, mac.Sum(nil)) {
		t.Errorf("the signature is wrong (%v)", err)
	}
}

func TestClusterInfoIsSignedWithAllSigningTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := looptest.New(t, millracetest.API(t))
		looptest.Start(t, s.Clients(), bootstraptoken.Signer, bootstraptoken.Cleaner)
		looptest.Create(s, "configmaps", "kube-public", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cluster-info"}, Data: map[string]string{"kubeconfig": "where", "jws-kubeconfig-zzzzzz": "old"}})
		for _, one := range []*corev1.Secret{
			token("aaaaaa", time.Now().Add(time.Hour), nil), token("bbbbbb", time.Time{}, map[string]string{"usage-bootstrap-signing": "false"}),
			token("cccccc", time.Time{}, map[string]string{"token-id": "dddddd"}),
		} {
			looptest.Create(s, "secrets", "kube-system", one)
		}
		signatures := func() map[string]string {
			time.Sleep(time.Minute)
			synctest.Wait()
			info, err := s.Kube.CoreV1().ConfigMaps("kube-public").Get(t.Context(), "cluster-info", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			delete(info.Data, "kubeconfig")
			return info.Data
		}
		got := signatures()
		if len(got) != 1 {
			t.Fatalf("signatures are %v", got)
		}
		verify(t, got["jws-kubeconfig-aaaaaa"], "where")
		looptest.Edit(s, "configmaps", "kube-public", "cluster-info", func(cm *corev1.ConfigMap) { cm.Data["kubeconfig"] = "elsewhere" })
		verify(t, signatures()["jws-kubeconfig-aaaaaa"], "elsewhere")
		time.Sleep(time.Hour)
		if got := signatures(); len(got) != 0 {
			t.Errorf("after the token has expired there are %v", got)
		}
	})
}

func TestTokensAreDeletedWhenTheyExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := looptest.New(t, millracetest.API(t))
		looptest.Start(t, s.Clients(), bootstraptoken.Cleaner)
		looptest.Create(s, "secrets", "kube-system", token("aaaaaa", time.Now().Add(time.Hour), nil))
		looptest.Create(s, "secrets", "kube-system", token("bbbbbb", time.Time{}, nil))
		has := func(id string) bool {
			_, err := s.Kube.CoreV1().Secrets("kube-system").Get(t.Context(), "bootstrap-token-"+id, metav1.GetOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
			return err == nil
		}
		time.Sleep(59 * time.Minute)
		if !has("aaaaaa") {
			t.Error("a token is deleted before its time")
		}
		time.Sleep(2 * time.Minute)
		if has("aaaaaa") || !has("bbbbbb") {
			t.Error("the token that has expired is there, or the other is not")
		}
	})
}
