package extensions_test

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/millracetest"
)

// thinker is a webhook that allows everything, after it was told to.
type thinker struct{ asked, told chan struct{} }

func (h thinker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if json.NewDecoder(r.Body).Decode(&review) != nil || review.Request == nil {
		return
	}
	h.asked <- struct{}{}
	<-h.told
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

// The namespace's loop finds nothing to delete, and the create was admitted before the namespace began to go.
func TestNothingIsCreatedInANamespaceThatGoesWhileAWebhookThinks(t *testing.T) {
	h := thinker{make(chan struct{}), make(chan struct{})}
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	c := millracetest.Start(t, millrace.Options{Controllers: []string{"namespace-controller"}, NoScheduler: true})
	k := millracetest.Clientset(t, c)
	namespace := func() {
		if _, err := k.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	namespace()
	none := registrationv1.SideEffectClassNone
	hook := registrationv1.ValidatingWebhook{
		Name: "h.example.com", SideEffects: &none, AdmissionReviewVersions: []string{"v1"}, TimeoutSeconds: new(int32(30)),
		Rules: []registrationv1.RuleWithOperations{{Operations: []registrationv1.OperationType{registrationv1.Create},
			Rule: registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}}}},
		ClientConfig: registrationv1.WebhookClientConfig{URL: &s.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})},
	}
	_, err := k.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), &registrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "h"}, Webhooks: []registrationv1.ValidatingWebhook{hook}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	created := make(chan error, 1)
	go func() {
		_, err := k.CoreV1().Secrets("n").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{})
		created <- err
	}()
	<-h.asked
	if err := k.CoreV1().Namespaces().Delete(t.Context(), "n", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := k.CoreV1().Namespaces().Get(t.Context(), "n", metav1.GetOptions{}); apierrors.IsNotFound(err) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	close(h.told)
	if err := <-created; err == nil {
		t.Error("the create was acknowledged")
	}
	namespace()
	if all, err := k.CoreV1().Secrets("n").List(t.Context(), metav1.ListOptions{}); err != nil || len(all.Items) > 0 {
		t.Errorf("in a namespace of the same name there are %v, %v", all.Items, err)
	}
}
