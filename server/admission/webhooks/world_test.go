package webhooks_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/server/admission/webhooks"
	"github.com/millrace/millrace/server/auth"
	"github.com/millrace/millrace/server/registry"
	"github.com/millrace/millrace/server/resource"
	"github.com/millrace/millrace/server/resource/builtin"
	"github.com/millrace/millrace/server/store"
	"github.com/millrace/millrace/server/store/memory"
	"github.com/millrace/millrace/server/watchcache"
	"github.com/millrace/millrace/server/webhook"
)

// world is a registry whose only admission is its webhooks, with one namespace, "n".
type world struct {
	testing.TB
	*registry.Registry
	store  store.Store
	told   []string
	noted  map[string]string
	plugin *webhooks.Webhooks
}

func newWorld(t testing.TB, s store.Store) *world {
	t.Helper()
	w := &world{TB: t, store: s, noted: map[string]string{}}
	shared := s != nil
	if s == nil {
		w.store = memory.New(memory.Options{})
		t.Cleanup(func() { w.store.Close() })
	}
	current := func() *registry.Registry { return w.Registry }
	client := webhook.New(webhook.Options{Registry: current})
	w.plugin = webhooks.New(webhooks.Options{Registry: current, Client: client, Authorize: auth.Always(auth.Allow), Shared: shared})
	cache := watchcache.New(w.store, watchcache.Options{Root: registry.Root})
	catalogue, err := resource.NewCatalogue(builtin.Kinds()...)
	w.must(err)
	w.Registry, err = registry.New(registry.Options{Store: w.store, Cache: cache, Catalogue: catalogue,
		Admission: []registry.Admission{w.plugin.Mutating(), w.plugin.Validating()}})
	w.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); cache.Run(ctx) }()
	t.Cleanup(func() { client.Close(); w.plugin.Close(); cancel(); <-ended })
	w.must(cache.WaitReady(ctx))
	if !shared {
		w.create("namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"team": "a"}}})
	}
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) storage(of string) *registry.Storage {
	w.Helper()
	of, group, _ := strings.Cut(of, ".")
	k, ok := w.Catalogue.Kind(schema.GroupResource{Group: group, Resource: of})
	if !ok {
		w.Fatalf("no kind %s", of)
	}
	s, err := w.Storage(k)
	w.must(err)
	return s
}

func (w *world) options() registry.WriteOptions {
	return registry.WriteOptions{Warn: func(s string) { w.told = append(w.told, s) }, Annotate: func(k, v string) { w.noted[k] = v }}
}

func (w *world) tryCreate(of string, o resource.Object, opt registry.WriteOptions) (resource.Object, error) {
	s := w.storage(of)
	s.Kind().Default(o)
	ctx := resource.WithCall(w.Context(), resource.Call{User: "alice", Groups: []string{"devs"}})
	stored, err := s.Create(ctx, o.GetNamespace(), o, opt)
	if err != nil {
		return nil, err
	}
	return stored.Object, nil
}

func (w *world) create(of string, o resource.Object) resource.Object {
	w.Helper()
	out, err := w.tryCreate(of, o, w.options())
	w.must(err)
	return out
}

func (w *world) update(of, name string, change func(resource.Object)) (resource.Object, error) {
	s := w.storage(of)
	namespace := ""
	if s.Kind().Namespaced {
		namespace = "n"
	}
	stored, _, err := s.Update(w.Context(), namespace, name, func(_ context.Context, old resource.Object) (resource.Object, error) {
		o := old.DeepCopyObject().(resource.Object)
		change(o)
		return o, nil
	}, registry.UpdateOptions{WriteOptions: w.options()})
	if err != nil {
		return nil, err
	}
	return stored.Object, nil
}

func (w *world) delete(of, name string) error {
	s := w.storage(of)
	namespace := ""
	if s.Kind().Namespaced {
		namespace = "n"
	}
	_, err := s.Delete(w.Context(), namespace, name, metav1.DeleteOptions{}, w.options())
	return err
}

// refused checks how a request ended.
func refused(t testing.TB, err error, words string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("got %v, want %s", err, words)
	}
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
	w.create("validatingwebhookconfigurations.admissionregistration.k8s.io", &registrationv1.ValidatingWebhookConfiguration{
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
	w.create("mutatingwebhookconfigurations.admissionregistration.k8s.io", &registrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: []registrationv1.MutatingWebhook{one}})
}

func configMap(name string, data ...string) *corev1.ConfigMap {
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "n"}, Data: map[string]string{}}
	for i := 0; i+1 < len(data); i += 2 {
		c.Data[data[i]] = data[i+1]
	}
	return c
}
