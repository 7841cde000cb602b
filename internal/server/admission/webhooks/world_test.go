package webhooks_test

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/admission/internal/admissiontest"
	"github.com/millrace/millrace/internal/server/admission/webhooks"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/webhook"
)

// world is a registry whose only admission is its webhooks.
type world struct {
	*admissiontest.World
	plugin *webhooks.Webhooks
}

// newWorld makes a world, on the store of another one if there is one given.
func newWorld(t testing.TB, s store.Store) *world {
	t.Helper()
	w := &world{}
	w.World = admissiontest.New(t, admissiontest.Options{Store: s, Admission: func(current *registry.Registry) []registry.Admission {
		client := webhook.New(webhook.Options{Registry: current})
		w.plugin = webhooks.New(webhooks.Options{Registry: current, Client: client, Authorize: auth.Always(auth.Allow), Shared: s != nil})
		t.Cleanup(func() { client.Close(); w.plugin.Close() })
		return []registry.Admission{w.plugin.Mutating(), w.plugin.Validating()}
	}})
	return w
}

// hook is a webhook that notes what it is asked.
type hook struct {
	*httptest.Server
	mu    sync.Mutex
	asked []*admissionv1.AdmissionRequest
	paths []string
}

// answer is what a hook makes of a request. What it writes itself stands for the answer.
type answer func(w http.ResponseWriter, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse

func newHook(t testing.TB, say answer) *hook {
	h := &hook{}
	h.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		review := &admissionv1.AdmissionReview{}
		if err := json.Unmarshal(body, review); err != nil {
			t.Errorf("a webhook got %s: %v", body, err)
			return
		}
		h.mu.Lock()
		h.asked = append(h.asked, review.Request)
		h.paths = append(h.paths, r.URL.String())
		h.mu.Unlock()
		response := say(w, review.Request)
		if response == nil {
			return
		}
		if response.UID == "" {
			response.UID = review.Request.UID
		}
		json.NewEncoder(w).Encode(admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: response})
	}))
	h.Config.ErrorLog = log.New(io.Discard, "", 0)
	h.EnableHTTP2 = true
	h.StartTLS()
	t.Cleanup(h.Close)
	return h
}

func allow(http.ResponseWriter, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Allowed: true}
}

func deny(words string) answer {
	return func(http.ResponseWriter, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{Result: &metav1.Status{Message: words, Code: 403}}
	}
}

func patch(text string) answer {
	return func(http.ResponseWriter, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{Allowed: true, Patch: []byte(text), PatchType: new(admissionv1.PatchTypeJSONPatch)}
	}
}

func (h *hook) config() registrationv1.WebhookClientConfig {
	return registrationv1.WebhookClientConfig{URL: new(h.URL + "/hook"),
		CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})}
}

func rule(group, version, resource string, operations ...registrationv1.OperationType) []registrationv1.RuleWithOperations {
	if operations == nil {
		operations = []registrationv1.OperationType{registrationv1.OperationAll}
	}
	return []registrationv1.RuleWithOperations{{Operations: operations,
		Rule: registrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource}}}}
}

// validating makes a configuration of one validating webhook.
func (w *world) validating(name string, h *hook, rules []registrationv1.RuleWithOperations, change ...func(*registrationv1.ValidatingWebhook)) {
	w.Helper()
	one := registrationv1.ValidatingWebhook{Name: name + ".example.com", ClientConfig: h.config(), Rules: rules,
		SideEffects: new(registrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"}}
	for _, c := range change {
		c(&one)
	}
	w.Create("validatingwebhookconfigurations.admissionregistration.k8s.io", &registrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: []registrationv1.ValidatingWebhook{one}})
}

// mutating makes a configuration of one mutating webhook.
func (w *world) mutating(name string, h *hook, rules []registrationv1.RuleWithOperations, change ...func(*registrationv1.MutatingWebhook)) {
	w.Helper()
	one := registrationv1.MutatingWebhook{Name: name + ".example.com", ClientConfig: h.config(), Rules: rules,
		SideEffects: new(registrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"}}
	for _, c := range change {
		c(&one)
	}
	w.Create("mutatingwebhookconfigurations.admissionregistration.k8s.io", &registrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: []registrationv1.MutatingWebhook{one}})
}
