package webhooks_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/admission/internal/admissiontest"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

func TestAWebhookSeesTheRequestAndRefusesIt(t *testing.T) {
	w := newWorld(t, nil)
	h := newHook(t, deny("no"))
	w.validating("v", h, rule("", "v1", "configmaps"))
	_, err := w.Try("configmaps", admissiontest.ConfigMap("c", "k", "v"), w.Options())
	admissiontest.Refused(t, err, `admission webhook "v.example.com" denied the request: no`)
	if code := err.(*apierrors.StatusError).ErrStatus.Code; code != 403 {
		t.Errorf("the code is %d", code)
	}
	r := h.asked[0]
	object := &corev1.ConfigMap{}
	w.Must(json.Unmarshal(r.Object.Raw, object))
	if r.Kind.Kind != "ConfigMap" || r.Resource.Resource != "configmaps" || r.Name != "c" || r.Namespace != "n" || r.Operation != "CREATE" ||
		r.UserInfo.Username != "alice" || object.Data["k"] != "v" || object.APIVersion != "v1" || object.Kind != "ConfigMap" || len(r.OldObject.Raw) != 0 ||
		!strings.Contains(string(r.Options.Raw), `"kind":"CreateOptions"`) || r.RequestKind.Kind != "ConfigMap" || *r.DryRun {
		t.Errorf("%+v", r)
	}
	if h.paths[0] != "/hook?timeout=10s" {
		t.Errorf("called at %s", h.paths[0])
	}
	w.Create("secrets", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "n"}})
}

func TestEveryVerbIsAskedAbout(t *testing.T) {
	w := newWorld(t, nil)
	h := newHook(t, allow)
	w.Create("configmaps", admissiontest.ConfigMap("c"))
	w.validating("v", h, rule("*", "*", "*/*"))
	_, err := w.Update("configmaps", "c", func(o resource.Object) { o.(*corev1.ConfigMap).Data = map[string]string{"a": "b"} })
	w.Must(err)
	w.Must(w.Remove("configmaps", "c"))
	var seen []string
	for _, r := range h.asked {
		seen = append(seen, fmt.Sprint(r.Operation, len(r.Object.Raw) > 0, len(r.OldObject.Raw) > 0))
	}
	if got := strings.Join(seen, ", "); got != "UPDATEtrue true, DELETEfalse true" {
		t.Error(got)
	}
}

func TestPatchesAreAppliedInOrderAndDefaultsAreFilledIn(t *testing.T) {
	w := newWorld(t, nil)
	w.mutating("b", newHook(t, patch(`[{"op":"test","path":"/data/a","value":"1"},{"op":"add","path":"/data/b","value":"2"}]`)), rule("", "v1", "configmaps"))
	w.mutating("a", newHook(t, patch(`[{"op":"add","path":"/data","value":{"a":"1"}}]`)), rule("", "v1", "configmaps"))
	c := w.Create("configmaps", admissiontest.ConfigMap("c")).(*corev1.ConfigMap)
	if c.Data["a"] != "1" || c.Data["b"] != "2" {
		t.Errorf("%v", c.Data)
	}
	if v := w.Noted["mutation.webhook.admission.k8s.io/round_0_index_0"]; v != `{"configuration":"a","webhook":"a.example.com","mutated":true}` {
		t.Errorf("%v", w.Noted)
	}
}

func TestPatchesStandInAuditEventsThatHaveBodies(t *testing.T) {
	w := newWorld(t, nil)
	w.mutating("a", newHook(t, patch(`[{"path":"/data","op":"add","value":{"a":"1"}}]`)), rule("", "v1", "configmaps"))
	const key = "patch.webhook.admission.k8s.io/round_0_index_0"
	w.Create("configmaps", admissiontest.ConfigMap("c"))
	if v, ok := w.Noted[key]; ok {
		t.Errorf("an event without bodies has the patch %s", v)
	}
	with := w.Options()
	with.AnnotateBodies = true
	_, err := w.Try("configmaps", admissiontest.ConfigMap("d"), with)
	w.Must(err)
	if v := w.Noted[key]; v != `{"configuration":"a","webhook":"a.example.com","patch":[{"op":"add","path":"/data","value":{"a":"1"}}],"patchType":"JSONPatch"}` {
		t.Errorf("%v", w.Noted)
	}
}

func TestAWebhookIsCalledAgainOnlyIfItWantsThatAndSomethingChanged(t *testing.T) {
	w := newWorld(t, nil)
	again := newHook(t, allow)
	once := newHook(t, allow)
	w.mutating("a", again, rule("", "v1", "configmaps"), func(h *registrationv1.MutatingWebhook) {
		h.ReinvocationPolicy = new(registrationv1.IfNeededReinvocationPolicy)
	})
	w.mutating("b", once, rule("", "v1", "configmaps"))
	w.Create("configmaps", admissiontest.ConfigMap("quiet"))
	if len(again.asked) != 1 {
		t.Fatalf("%d calls although nothing changed", len(again.asked))
	}
	w.mutating("c", newHook(t, patch(`[{"op":"add","path":"/data","value":{"a":"1"}}]`)), rule("", "v1", "configmaps"))
	w.Create("configmaps", admissiontest.ConfigMap("changed"))
	if len(again.asked) != 3 || len(once.asked) != 2 {
		t.Errorf("%d and %d calls", len(again.asked), len(once.asked))
	}
	if !strings.Contains(string(again.asked[2].Object.Raw), `"data":{"a":"1"}`) {
		t.Errorf("called again with %s", again.asked[2].Object.Raw)
	}
}

func TestAWebhookForOneVersionIsShownThatOfEveryRequest(t *testing.T) {
	w := newWorld(t, nil)
	h := newHook(t, patch(`[{"op":"replace","path":"/spec/maxReplicas","value":7}]`))
	w.mutating("m", h, rule("autoscaling", "v1", "horizontalpodautoscalers"))
	exact := newHook(t, deny("not asked about"))
	w.mutating("exact", exact, rule("autoscaling", "v1", "horizontalpodautoscalers"), func(h *registrationv1.MutatingWebhook) { h.MatchPolicy = new(registrationv1.Exact) })
	o := w.Create("horizontalpodautoscalers.autoscaling", &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "h", Namespace: "n"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 3, ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "d", APIVersion: "apps/v1"}}})
	r := h.asked[0]
	if r.Kind.Version != "v1" || r.RequestKind.Version != "v2" || !strings.Contains(string(r.Object.Raw), `"apiVersion":"autoscaling/v1"`) {
		t.Errorf("%+v with %s", r, r.Object.Raw)
	}
	if o.(*autoscalingv2.HorizontalPodAutoscaler).Spec.MaxReplicas != 7 || len(exact.asked) != 0 {
		t.Errorf("%+v", o)
	}
}

func TestSelectorsChooseByTheNamespaceAndByTheObject(t *testing.T) {
	w := newWorld(t, nil)
	byNamespace, byObject, ofNamespaces := newHook(t, allow), newHook(t, allow), newHook(t, allow)
	selector := func(k, v string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{k: v}}
	}
	w.validating("other", newHook(t, deny("never")), rule("", "v1", "configmaps"), func(h *registrationv1.ValidatingWebhook) { h.NamespaceSelector = selector("team", "b") })
	w.validating("this", byNamespace, rule("", "v1", "configmaps"), func(h *registrationv1.ValidatingWebhook) { h.NamespaceSelector = selector("team", "a") })
	w.validating("object", byObject, rule("", "v1", "configmaps"), func(h *registrationv1.ValidatingWebhook) { h.ObjectSelector = selector("watched", "yes") })
	w.validating("namespaces", ofNamespaces, rule("", "v1", "namespaces"), func(h *registrationv1.ValidatingWebhook) { h.NamespaceSelector = selector("team", "c") })
	w.Create("configmaps", admissiontest.ConfigMap("c"))
	c := admissiontest.ConfigMap("watched")
	c.Labels = map[string]string{"watched": "yes"}
	w.Create("configmaps", c)
	if len(byNamespace.asked) != 2 || len(byObject.asked) != 1 {
		t.Errorf("%d and %d calls", len(byNamespace.asked), len(byObject.asked))
	}
	w.Create("namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "d"}})
	w.Create("namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "e", Labels: map[string]string{"team": "c"}}})
	if len(ofNamespaces.asked) != 1 || ofNamespaces.asked[0].Namespace != "e" {
		t.Errorf("%d calls for namespaces", len(ofNamespaces.asked))
	}
	// A label that has just been set counts for the next request.
	_, err := w.Update("namespaces", "n", func(o resource.Object) { o.SetLabels(map[string]string{"team": "b"}) })
	w.Must(err)
	_, err = w.Try("configmaps", admissiontest.ConfigMap("late"), w.Options())
	admissiontest.Refused(t, err, "never")
}

func TestMatchConditionsDecideWithoutACall(t *testing.T) {
	w := newWorld(t, nil)
	h := newHook(t, deny("called"))
	condition := func(text string, policy registrationv1.FailurePolicyType) func(*registrationv1.ValidatingWebhook) {
		return func(h *registrationv1.ValidatingWebhook) {
			h.MatchConditions, h.FailurePolicy = []registrationv1.MatchCondition{{Name: "c", Expression: text}}, &policy
		}
	}
	w.validating("names", h, rule("", "v1", "configmaps"), condition(`object.metadata.name == "x" && authorizer.requestResource.check("create").allowed()`, registrationv1.Fail))
	w.Create("configmaps", admissiontest.ConfigMap("c"))
	_, err := w.Try("configmaps", admissiontest.ConfigMap("x"), w.Options())
	admissiontest.Refused(t, err, "called")
	w.validating("broken", h, rule("", "v1", "secrets"), condition(`object.data.none == "x"`, registrationv1.Fail))
	_, err = w.Try("secrets", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "n"}}, w.Options())
	admissiontest.Refused(t, err, `secrets "s" is forbidden: expression 'object.data.none == "x"' resulted in error: no such key: data`)
	w.validating("ignored", h, rule("", "v1", "services"), condition(`object.data.none == "x"`, registrationv1.Ignore))
	w.Create("endpoints", &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "n"}}) //nolint:staticcheck // they are still part of the API
}

func TestConfigurationsCannotLockThemselvesIn(t *testing.T) {
	w := newWorld(t, nil)
	h := newHook(t, deny("everything"))
	w.validating("all", h, rule("*", "*", "*/*"))
	w.mutating("all", h, rule("*", "*", "*/*"))
	w.Must(w.Remove("validatingwebhookconfigurations.admissionregistration.k8s.io", "all"))
	w.Must(w.Remove("mutatingwebhookconfigurations.admissionregistration.k8s.io", "all"))
	w.Create("configmaps", admissiontest.ConfigMap("c"))
	if len(h.asked) != 0 {
		t.Errorf("%d calls", len(h.asked))
	}
}

func TestDryRunsCallOnlyWhatHasNoSideEffects(t *testing.T) {
	w := newWorld(t, nil)
	h := newHook(t, allow)
	w.validating("some", h, rule("", "v1", "configmaps"), func(h *registrationv1.ValidatingWebhook) { h.AdmissionReviewVersions = []string{"v1beta1"} })
	opt := w.Options()
	opt.DryRun = true
	if _, err := w.Try("configmaps", admissiontest.ConfigMap("c"), opt); err != nil || !*h.asked[0].DryRun {
		t.Errorf("%v", err)
	}
}

func TestWhatIsAcknowledgedByAnotherServerAppliesToTheNextRequest(t *testing.T) {
	w := newWorld(t, nil)
	other := newWorld(t, w.Store)
	for i := range 20 {
		name := fmt.Sprintf("v%d", i)
		w.validating(name, newHook(t, deny("no")), rule("", "v1", "configmaps"))
		_, err := other.Try("configmaps", admissiontest.ConfigMap(name), registry.WriteOptions{})
		admissiontest.Refused(t, err, name+".example.com")
		w.Must(w.Remove("validatingwebhookconfigurations.admissionregistration.k8s.io", name))
		if _, err := other.Try("configmaps", admissiontest.ConfigMap(name), registry.WriteOptions{}); err != nil {
			t.Fatalf("after the webhook is gone: %v", err)
		}
	}
}

func TestWarningsAndAnnotationsReachTheCaller(t *testing.T) {
	w := newWorld(t, nil)
	w.validating("v", newHook(t, func(http.ResponseWriter, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{Allowed: true, Warnings: []string{"mind this"}, AuditAnnotations: map[string]string{"k": "v"}}
	}), rule("", "v1", "configmaps"))
	w.Create("configmaps", admissiontest.ConfigMap("c"))
	if len(w.Told) != 1 || w.Told[0] != "mind this" || w.Noted["v.example.com/k"] != "v" {
		t.Errorf("%v %v", w.Told, w.Noted)
	}
}
