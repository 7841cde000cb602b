package scheduler

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
)

// TestConditionsAreThoseOfKubernetes checks the requests that are sent.
func TestConditionsAreThoseOfKubernetes(t *testing.T) {
	type request struct{ method, path, kind, body string }
	var got request
	var all []request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = request{r.Method, r.URL.Path, r.Header.Get("Content-Type"), string(body)}
		all = append(all, got)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web"}}`)
	}))
	defer server.Close()
	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: server.URL})
	api := Server(client.CoreV1())
	pod := &cluster.Pod{Key: keyOf("web"), UID: "17", ResourceVersion: "42"}

	condition := corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "no",
		ObservedGeneration: 3, LastTransitionTime: metav1.NewTime(time.Unix(0, 0)),
	}
	if err := api.Report(t.Context(), pod, Status{Condition: &condition}); err != nil {
		t.Fatal(err)
	}
	want := `{"metadata":{"resourceVersion":"42","uid":"17"},"status":{"conditions":[{"lastProbeTime":null,` +
		`"lastTransitionTime":"1970-01-01T00:00:00Z","message":"no","observedGeneration":3,"reason":"Unschedulable",` +
		`"status":"False","type":"PodScheduled"}]}}`
	if len(all) != 1 {
		t.Errorf("%d requests for a condition", len(all))
	}
	if got.method != "PATCH" || got.path != "/api/v1/namespaces/default/pods/web/status" ||
		got.kind != "application/strategic-merge-patch+json" || got.body != want {
		t.Errorf("condition: %+v", got)
	}

	all = nil
	if err := api.Preempt(t.Context(), pod, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}); err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || all[0].method != "PATCH" || all[0].path != "/api/v1/namespaces/default/pods/web/status" {
		t.Fatalf("a preemption is %+v", all)
	}
	deletion := request{"DELETE", "/api/v1/namespaces/default/pods/web", "application/json", `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"17"}}`}
	if all[1] != deletion {
		t.Errorf("a preemption ends with %+v, want %+v", all[1], deletion)
	}
}
