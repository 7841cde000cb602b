package custom_test

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

var mutatingWebhooks = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}

// startMutatingWebhooks starts webhooks that patch tabs, by path, and configures them in the order of the names of the
// paths. All want to be asked again.
func startMutatingWebhooks(t *testing.T, d dynamic.Interface, patches map[string]string) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{
			UID: review.Request.UID, Allowed: true, Patch: []byte(patches[r.URL.Path]), PatchType: new(admissionv1.PatchTypeJSONPatch),
		}
		review.Request = nil
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for path := range patches {
		configuration := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": map[string]any{"name": path[1:]},
			"webhooks": []any{map[string]any{
				"name": path[1:] + ".example.com", "sideEffects": "None", "admissionReviewVersions": []any{"v1"}, "reinvocationPolicy": "IfNeeded",
				"clientConfig": map[string]any{"url": server.URL + path, "caBundle": authority},
				"rules":        []any{map[string]any{"apiGroups": []any{"example.com"}, "apiVersions": []any{"v1"}, "resources": []any{"tabs"}, "operations": []any{"*"}}},
			}},
		}}
		if _, err := d.Resource(mutatingWebhooks).Create(t.Context(), throughJSON(t, configuration), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// throughJSON returns an object as a client would send it: with bytes as text.
func throughJSON(t *testing.T, u *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	text, err := json.Marshal(u.Object)
	if err != nil {
		t.Fatal(err)
	}
	out := &unstructured.Unstructured{}
	if err := out.UnmarshalJSON(text); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestWebhooksMutateCustomResourcesInBothRounds(t *testing.T) {
	d := start(t)
	define(t, d, definition)
	startMutatingWebhooks(t, d, map[string]string{
		"/a-label": `[{"op":"add","path":"/metadata/labels","value":{"by":"webhook"}}]`,
		"/b-size":  `[{"op":"add","path":"/spec/size","value":"large"},{"op":"add","path":"/spec/none","value":"pruned"}]`,
	})
	in := d.Resource(tabs).Namespace("default")
	made := must(in.Create(t.Context(), tab("t", "{color: red}"), metav1.CreateOptions{}))(t)
	if made.GetLabels()["by"] != "webhook" || at(made, "spec", "size") != "large" || at(made, "spec", "none") != nil {
		t.Errorf("created is %v", made.Object)
	}
	made.Object["spec"] = map[string]any{"color": "green"}
	made.SetLabels(nil)
	changed := must(in.Update(t.Context(), made, metav1.UpdateOptions{}))(t)
	if changed.GetLabels()["by"] != "webhook" || at(changed, "spec", "size") != "large" || at(changed, "spec", "color") != "green" {
		t.Errorf("updated is %v", changed.Object)
	}
	if same := must(in.Update(t.Context(), changed, metav1.UpdateOptions{}))(t); same.GetResourceVersion() != changed.GetResourceVersion() {
		t.Errorf("an update that changes nothing was stored: %v", same.Object)
	}
}
