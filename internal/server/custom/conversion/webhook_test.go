package conversion_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/server/custom/conversion"
)

// hook is a webhook that notes its calls.
type hook struct {
	delay  time.Duration
	change func(*unstructured.Unstructured)
	answer func(*v1.ConversionReview)
	err    error

	mu            sync.Mutex // guards what follows
	calls         []int      // how many objects each had
	running, most int
}

func (h *hook) post(_ context.Context, _ time.Duration, body []byte) ([]byte, error) {
	var r v1.ConversionReview
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, err
	}
	h.mu.Lock()
	h.calls = append(h.calls, len(r.Request.Objects))
	h.running++
	h.most = max(h.most, h.running)
	h.mu.Unlock()
	time.Sleep(h.delay)
	h.mu.Lock()
	h.running--
	h.mu.Unlock()
	r.Response = &v1.ConversionResponse{UID: r.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	for _, o := range r.Request.Objects {
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal(o.Raw, &u.Object); err != nil {
			return nil, err
		}
		u.SetAPIVersion(r.Request.DesiredAPIVersion)
		if u.GetName() == "bad" {
			r.Response.Result = metav1.Status{Status: metav1.StatusFailure, Message: "bad is bad"}
		}
		if h.change != nil {
			h.change(u)
		}
		r.Response.ConvertedObjects = append(r.Response.ConvertedObjects, runtime.RawExtension{Object: u})
	}
	r.Request = nil
	if h.answer != nil {
		h.answer(&r)
	}
	text, err := json.Marshal(r)
	return text, errors.Join(err, h.err)
}

func objects(n int) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for i := range n {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Tab"}}
		u.SetName(fmt.Sprint("o", i))
		u.SetUID("1")
		u.SetLabels(map[string]string{"a": "b"})
		out = append(out, u)
	}
	return out
}

func (h *hook) converter() *conversion.Webhook {
	return conversion.New(conversion.Options{Group: "example.com", Reviews: []string{"v9", "v1"}, Post: h.post})
}

func TestManyObjectsGoOutInFewCallsThatRunTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hook{delay: time.Second}
		in := objects(5000)
		made, err := h.converter().Convert(t.Context(), in, "v2")
		if err != nil {
			t.Fatal(err)
		}
		for i, u := range made {
			if u.GetAPIVersion() != "example.com/v2" || u.GetName() != in[i].GetName() {
				t.Fatalf("object %d became %v", i, u)
			}
		}
		if len(h.calls) != 10 || h.most != 8 {
			t.Errorf("%d calls, %d at a time", len(h.calls), h.most)
		}
	})
}

func TestAnObjectThatIsRefusedHarmsNoOther(t *testing.T) {
	h := &hook{}
	in := objects(100)
	in[37].SetName("bad")
	made, err := h.converter().Convert(t.Context(), in, "v2")
	if err == nil || err.Error() != "conversion webhook for example.com/v1, Kind=Tab failed: bad is bad" {
		t.Errorf("got %v", err)
	}
	for i, u := range made {
		if (u == nil) != (i == 37) {
			t.Errorf("object %d is %v", i, u)
		}
	}
}

func TestAWebhookThatRefusesAllIsNotAskedForEach(t *testing.T) {
	h := &hook{answer: func(r *v1.ConversionReview) { r.Response.Result = metav1.Status{Status: "Failure"} }}
	_, err := h.converter().Convert(t.Context(), objects(500), "v2")
	if err == nil || !strings.Contains(err.Error(), "response.result.status was 'Failure', not 'Success'") {
		t.Errorf("got %v", err)
	}
	if len(h.calls) > 50 {
		t.Errorf("%d calls", len(h.calls))
	}
}

func TestOnlyLabelsAndAnnotationsOfTheMetadataChange(t *testing.T) {
	h := &hook{change: func(u *unstructured.Unstructured) {
		u.SetLabels(map[string]string{"c": "d"})
		u.SetFinalizers([]string{"example.com/mine"})
		u.SetGeneration(9)
	}}
	made, err := h.converter().Convert(t.Context(), objects(1), "v2")
	if err != nil {
		t.Fatal(err)
	}
	if u := made[0]; u.GetLabels()["c"] != "d" || u.GetLabels()["a"] != "" || u.GetFinalizers() != nil || u.GetGeneration() != 0 {
		t.Errorf("got %v", u)
	}
}

func TestWrongAnswersAreToldInKubernetesWords(t *testing.T) {
	const about = "conversion webhook for example.com/v1, Kind=Tab "
	for want, h := range map[string]*hook{
		"failed: connection refused":   {err: errors.New("connection refused")},
		"failed: no response provided": {answer: func(r *v1.ConversionReview) { r.Response = nil }},
		`failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got apiextensions.k8s.io/v1, Kind=Other`: {answer: func(r *v1.ConversionReview) { r.Kind = "Other" }},
		`, got "other"`:                  {answer: func(r *v1.ConversionReview) { r.Response.UID = "other" }},
		"returned 0 objects, expected 1": {answer: func(r *v1.ConversionReview) { r.Response.ConvertedObjects = nil }},
		"returned invalid object at index 0: invalid groupVersion (expected example.com/v2, received example.com/v3)": {change: func(u *unstructured.Unstructured) { u.SetAPIVersion("example.com/v3") }},
		"returned invalid object at index 0: invalid kind (expected Tab, received Knob)":                              {change: func(u *unstructured.Unstructured) { u.SetKind("Knob") }},
		"returned invalid object: must have the same name: o0 != other":                                               {change: func(u *unstructured.Unstructured) { u.SetName("other") }},
		"returned invalid object: must have the same UID: 1 != 2":                                                     {change: func(u *unstructured.Unstructured) { u.SetUID("2") }},
		"returned invalid metadata: metadata.labels: Invalid value":                                                   {change: func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"-": "x"}) }},
		"returned invalid metadata: metadata.labels[a] must be a string, but is int64 in converted object": {change: func(u *unstructured.Unstructured) {
			u.Object["metadata"].(map[string]any)["labels"] = map[string]any{"a": 1}
		}},
	} {
		made, err := h.converter().Convert(t.Context(), objects(1), "v2")
		if err == nil || !strings.HasPrefix(err.Error(), about) || !strings.Contains(err.Error(), want) || made[0] != nil {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
