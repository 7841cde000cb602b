package millrace_test

import (
	"encoding/json"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/millracetest"
)

func TestComponentsTellHowTheyAre(t *testing.T) {
	kube := millracetest.Clientset(t, millracetest.Start(t, millrace.Options{NoScheduler: true}))
	components := kube.CoreV1().ComponentStatuses()
	list, err := components.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]corev1.ConditionStatus{}
	for _, c := range list.Items {
		got[c.Name] = c.Conditions[0].Status
	}
	// Whether a scheduler runs on this machine, which is asked, is not the test's to say.
	if len(got) != 3 || got["etcd-0"] != corev1.ConditionTrue || got["controller-manager"] != corev1.ConditionTrue || got["scheduler"] == "" {
		t.Errorf("the components are %v", got)
	}
	if one, err := components.Get(t.Context(), "etcd-0", metav1.GetOptions{}); err != nil || one.Conditions[0].Message != "ok" {
		t.Errorf("the store is %+v, %v", one, err)
	}
	if _, err := components.Get(t.Context(), "nobody", metav1.GetOptions{}); !apierrors.IsNotFound(err) || err.Error() != `componentstatus "nobody" not found` {
		t.Errorf("a component that does not exist: %v", err)
	}
	if list, err := components.List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=etcd-0"}); err != nil || len(list.Items) != 1 {
		t.Errorf("selected are %v, %v", list, err)
	}
	for accept, want := range map[string]string{
		"application/json;as=Table;v=v1;g=meta.k8s.io":                     "Table",
		"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io": "PartialObjectMetadataList",
		"application/json": "ComponentStatusList",
	} {
		var answer struct {
			metav1.TypeMeta
			Items, Rows []any
		}
		b, err := kube.CoreV1().RESTClient().Get().AbsPath("/api/v1/componentstatuses").SetHeader("Accept", accept).DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &answer); err != nil {
			t.Fatal(err)
		}
		if answer.Kind != want || len(answer.Items)+len(answer.Rows) != 3 {
			t.Errorf("%s: %s", accept, b)
		}
	}
	if err := kube.CoreV1().RESTClient().Delete().AbsPath("/api/v1/componentstatuses/etcd-0").Do(t.Context()).Error(); apierrors.ReasonForError(err) != metav1.StatusReasonMethodNotAllowed {
		t.Errorf("%d expected, it was %v", http.StatusMethodNotAllowed, err)
	}
}
