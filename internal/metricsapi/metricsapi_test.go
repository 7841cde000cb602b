package metricsapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/millrace/millrace/internal/metricsapi"
)

// api returns a Server with two nodes, one of which does not answer, and three pods.
func api(t *testing.T) (*metricsapi.Server, *atomic.Int32) {
	t.Helper()
	asked := new(atomic.Int32)
	pod := func(name, node, phase string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"a","uid":%q,"labels":{"app":"web"}},"spec":{"nodeName":%q},"status":{"phase":%q}}`, name, name, node, phase)
	}
	use := `"cpu":{"time":"2026-01-01T00:00:00Z","usageNanoCores":250000000},"memory":{"time":"2026-01-01T00:00:00Z","workingSetBytes":67108864}`
	answers := map[string]string{
		"/api/v1/nodes":                       `{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"n"}},{"metadata":{"name":"away"}}]}`,
		"/api/v1/nodes/n":                     `{"kind":"Node","apiVersion":"v1","metadata":{"name":"n"}}`,
		"/api/v1/namespaces/a/pods":           `{"kind":"PodList","apiVersion":"v1","items":[` + pod("p", "n", "Running") + "," + pod("q", "away", "Running") + "," + pod("r", "n", "Pending") + `]}`,
		"/api/v1/namespaces/a/pods/p":         strings.Replace(pod("p", "n", "Running"), "{", `{"kind":"Pod","apiVersion":"v1",`, 1),
		"/api/v1/nodes/n/proxy/stats/summary": `{"node":{"nodeName":"n",` + use + `},"pods":[{"podRef":{"name":"p","namespace":"a","uid":"p"},"containers":[{"name":"one",` + use + `},{"name":"two",` + use + `}]}]}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/stats/summary") {
			asked.Add(1)
		}
		answer, ok := answers[r.URL.Path]
		w.Header().Set("Content-Type", "application/json")
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			answer = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
		}
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(server.Close)
	kube, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return metricsapi.New(metricsapi.Options{Kube: kube}), asked
}

func get(t *testing.T, s http.Handler, path string, into any) int {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, metricsapi.Root+path, nil))
	if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
		t.Fatalf("%s: %v in %s", path, err, w.Body)
	}
	return w.Code
}

func TestRunningPodsOfNodesThatAnswerAreListed(t *testing.T) {
	s, asked := api(t)
	var list metricsv1beta1.PodMetricsList
	for range 3 {
		if code := get(t, s, "/namespaces/a/pods", &list); code != http.StatusOK {
			t.Fatal(code)
		}
	}
	if len(list.Items) != 1 || list.Items[0].Name != "p" || len(list.Items[0].Containers) != 2 || list.Items[0].Labels["app"] != "web" {
		t.Fatalf("the pods are %+v", list.Items)
	}
	if c := list.Items[0].Containers[0]; c.Usage.Cpu().String() != "250m" || c.Usage.Memory().String() != "64Mi" {
		t.Errorf("a container uses %v", c.Usage)
	}
	if n := asked.Load(); n != 1+3 {
		t.Errorf("nodes were asked %d times: one that answered is not asked again so soon, one that did not is", n)
	}
}

func TestASingleNodeAndASinglePodCanBeRead(t *testing.T) {
	s, _ := api(t)
	var node metricsv1beta1.NodeMetrics
	if code := get(t, s, "/nodes/n", &node); code != http.StatusOK || node.Usage.Cpu().MilliValue() != 250 || node.Kind != "NodeMetrics" {
		t.Errorf("%d, %+v", code, node)
	}
	var pod metricsv1beta1.PodMetrics
	if code := get(t, s, "/namespaces/a/pods/p", &pod); code != http.StatusOK || pod.Namespace != "a" {
		t.Errorf("%d, %+v", code, pod)
	}
	var status struct{ Message string }
	if code := get(t, s, "/namespaces/a/pods/none", &status); code != http.StatusNotFound || status.Message != `podmetrics.metrics.k8s.io "a/none" not found` {
		t.Errorf("%d, %q", code, status.Message)
	}
}

func TestDiscoveryOfTheGroupWorks(t *testing.T) {
	s, _ := api(t)
	var list struct{ Resources []struct{ Name, Kind string } }
	if code := get(t, s, "", &list); code != http.StatusOK || len(list.Resources) != 2 || list.Resources[1].Kind != "PodMetrics" {
		t.Errorf("%d, %+v", code, list)
	}
}

func TestATableIsReturnedWhenAskedFor(t *testing.T) {
	s, _ := api(t)
	w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, metricsapi.Root+"/namespaces/a/pods", nil)
	r.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	s.ServeHTTP(w, r)
	if !strings.Contains(w.Body.String(), `"cells":["p","500m","128Mi","15s"]`) {
		t.Error(w.Body)
	}
}
