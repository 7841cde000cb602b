package access_test

import (
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Who may write a pod could keep a processor busy for hours with twenty bytes, and the scheduler with as few.
func TestAQuantityWithALargeExponentIsRefusedHoweverItIsSent(t *testing.T) {
	c := startAPIServer(t)
	pods := c.admin.CoreV1().Pods("default")
	pod := func(name, cpu string) string {
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + name + `"},"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"` + cpu + `"}}}]}}`
	}
	rest := c.admin.CoreV1().RESTClient()
	rest.Post().AbsPath("/api/v1/namespaces/default/pods").Body([]byte(pod("a", "1"))).Do(t.Context())
	const large = "1e-9999999"
	refused := func(how string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "quantities must not have exponents of more than three digits") {
			t.Errorf("%s: %v", how, err)
		}
	}
	refused("create", rest.Post().AbsPath("/api/v1/namespaces/default/pods").Body([]byte(pod("b", large))).Do(t.Context()).Error())
	refused("update", rest.Put().AbsPath("/api/v1/namespaces/default/pods/a").Body([]byte(pod("a", large))).Do(t.Context()).Error())
	for kind, patch := range map[types.PatchType]string{
		types.MergePatchType:          `{"spec":{"overhead":{"cpu":"` + large + `"}}}`,
		types.StrategicMergePatchType: `{"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"` + large + `"}}}]}}`,
		types.JSONPatchType:           `[{"op":"replace","path":"/spec/containers/0/resources/requests/cpu","value":"` + large + `"}]`,
		types.ApplyYAMLPatchType:      "apiVersion: v1\nkind: Pod\nmetadata: {name: c}\nspec: {containers: [{name: c, image: i, resources: {requests: {cpu: \"1\\x65-9999999\"}}}]}\n",
	} {
		name, o := "a", metav1.PatchOptions{}
		if kind == types.ApplyYAMLPatchType {
			name, o.FieldManager = "c", "me"
		}
		_, err := pods.Patch(t.Context(), name, kind, []byte(patch), o)
		refused(string(kind), err)
	}
	if left, err := pods.List(t.Context(), metav1.ListOptions{}); err != nil || len(left.Items) != 1 || left.Items[0].Spec.Containers[0].Resources.Requests.Cpu().String() != "1" {
		t.Errorf("there are %+v, %v", left, err)
	}
	var code int
	rest.Post().AbsPath("/api/v1/namespaces/default/configmaps").Body([]byte(`{"metadata":{"name":"1e99999"},"data":{"commit":"1e99999"}}`)).Do(t.Context()).StatusCode(&code)
	if code != http.StatusCreated {
		t.Errorf("a name that looks like a number: %d", code)
	}
}
