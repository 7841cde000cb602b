package webhooks_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/millrace/millrace/internal/server/admission/internal/admissiontest"
)

// raw answers with bytes as they are.
func raw(text string, code int) answer {
	return func(w http.ResponseWriter, _ *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		io.WriteString(w, text)
		return nil
	}
}

func TestWhatGoesWrongEndsTheRequestInTheWordsOfKubernetes(t *testing.T) {
	const calling = `Internal error occurred: failed calling webhook "m.example.com": `
	for name, test := range map[string]struct {
		say  answer
		want string
	}{
		"nonsense":     {raw("nonsense", 200), calling + "failed to call webhook: couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value"},
		"no answer":    {raw(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`, 200), calling + "received invalid webhook response: webhook response was absent"},
		"no kind":      {raw(`{"response":{"uid":"","allowed":true}}`, 200), calling + `received invalid webhook response: expected response.uid="`},
		"not found":    {raw("", 404), calling + "failed to call webhook: the server could not find the requested resource"},
		"server error": {raw("oops", 500), calling + `failed to call webhook: an error on the server ("unknown") has prevented the request from succeeding`},
		"wrong uid": {func(http.ResponseWriter, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			return &admissionv1.AdmissionResponse{UID: "other", Allowed: true}
		}, `, got "other"`},
		"patch without a type": {func(http.ResponseWriter, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			return &admissionv1.AdmissionResponse{Allowed: true, Patch: []byte("[]")}
		}, calling + "received invalid webhook response: webhook returned response.patch but not response.patchType"},
		"undecodable patch":       {patch("{}"), calling + "received undecodable patch in webhook response"},
		"patch that does not fit": {patch(`[{"op":"remove","path":"/data/none"}]`), "Internal error occurred: "},
		"patch of another type":   {patch(`[{"op":"replace","path":"/data","value":7}]`), "Internal error occurred: json: cannot unmarshal number into Go struct field"},
		"patch of the kind":       {patch(`[{"op":"replace","path":"/kind","value":"Secret"}]`), "Internal error occurred: the object is of the kind"},
		"patch of the namespace":  {patch(`[{"op":"replace","path":"/metadata/namespace","value":"kube-system"}]`), "the namespace of the provided object does not match the namespace sent on the request"},
		"denied without a word": {func(http.ResponseWriter, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			return &admissionv1.AdmissionResponse{}
		}, `admission webhook "m.example.com" denied the request without explanation`},
		"a redirect without an end": {func(w http.ResponseWriter, _ *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			w.Header().Set("Location", "/hook")
			w.WriteHeader(http.StatusTemporaryRedirect)
			return nil
		}, calling + "failed to call webhook: "},
	} {
		w := newWorld(t, nil)
		w.mutating("m", newHook(t, test.say), rule("", "v1", "configmaps"))
		_, err := w.Try("configmaps", admissiontest.ConfigMap("c", "k", "v"), w.Options())
		t.Run(name, func(t *testing.T) { admissiontest.Refused(t, err, test.want) })
	}
}

func TestAWebhookThatFailsIsIgnoredIfItMayBe(t *testing.T) {
	w := newWorld(t, nil)
	ignore := registrationv1.Ignore
	gone := newHook(t, allow)
	gone.Close()
	w.mutating("m", gone, rule("", "v1", "configmaps"), func(h *registrationv1.MutatingWebhook) { h.FailurePolicy = &ignore })
	w.validating("v", gone, rule("", "v1", "configmaps"), func(h *registrationv1.ValidatingWebhook) { h.FailurePolicy = &ignore })
	w.Create("configmaps", admissiontest.ConfigMap("c"))
	if w.Noted["failed-open.mutation.webhook.admission.k8s.io/round_0_index_0"] != "m.example.com" || w.Noted["failed-open.validating.webhook.admission.k8s.io/round_0_index_0"] != "v.example.com" {
		t.Errorf("%v", w.Noted)
	}
}

func TestAWebhookThatHangsIsGivenUpAfterItsTime(t *testing.T) {
	w := newWorld(t, nil)
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	w.validating("v", newHook(t, func(http.ResponseWriter, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		<-ended
		return nil
	}), rule("", "v1", "configmaps"), func(h *registrationv1.ValidatingWebhook) { h.TimeoutSeconds = new(int32(1)) })
	_, err := w.Try("configmaps", admissiontest.ConfigMap("c"), w.Options())
	admissiontest.Refused(t, err, "context deadline exceeded")
}

func TestValidatingWebhooksAreCalledAtTheSameTime(t *testing.T) {
	w := newWorld(t, nil)
	const n = 5
	arrived, all := make(chan struct{}, n), make(chan struct{})
	go func() {
		for range n {
			<-arrived
		}
		close(all)
	}()
	h := newHook(t, func(http.ResponseWriter, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		arrived <- struct{}{}
		<-all // nobody answers before all were asked
		return &admissionv1.AdmissionResponse{Allowed: true}
	})
	for i := range n {
		w.validating(fmt.Sprintf("v%d", i), h, rule("", "v1", "configmaps"))
	}
	w.Create("configmaps", admissiontest.ConfigMap("c"))
}
