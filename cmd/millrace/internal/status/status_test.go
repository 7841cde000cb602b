package status

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

var now = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// answers is a server with recorded answers by their paths; what is not there is forbidden.
type answers map[string]string

func (a answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, ok := a[r.URL.Path]
	switch {
	case !ok:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		text = `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "you may not", "reason": "Forbidden", "code": 403}`
	case strings.Contains(text, "[-]"):
		w.WriteHeader(http.StatusInternalServerError)
	case strings.HasPrefix(text, "{"):
		w.Header().Set("Content-Type", "application/json")
	}
	_, _ = w.Write([]byte(text))
}

// told returns what is printed of a server.
func told(t *testing.T, a answers) (string, *report) {
	t.Helper()
	server := httptest.NewServer(a)
	defer server.Close()
	from, err := connect(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	r, err := from.read(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := r.print(&out); err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(out.String(), server.URL, "URL"), r
}

func healthy() answers {
	return answers{
		"/version": `{"gitVersion": "v1.37.0+millrace"}`, "/readyz": "ok",
		"/metrics": "process_start_time_seconds 1795948200\nprocess_resident_memory_bytes 1.048576e+08\ngo_goroutines 321\n" +
			`apiserver_resource_objects{group="",resource="pods"} 12` + "\n" + `apiserver_resource_objects{group="apps",resource="deployments"} 3` + "\n" +
			`apiserver_resource_objects{group="",resource="secrets"} 0` + "\n" +
			`apiserver_longrunning_requests{verb="WATCH",resource="pods"} 4` + "\n" + `apiserver_longrunning_requests{verb="CONNECT",resource="pods"} 9` + "\n",
		"/api/v1/nodes": `{"items": [{"metadata": {"name": "one"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}]}`,
		"/api/v1/pods":  `{"items": []}`,
		"/apis/apiregistration.k8s.io/v1/apiservices": `{"items": []}`,
	}
}

func TestAHealthyClusterIsToldInAFewLines(t *testing.T) {
	got, r := told(t, healthy())
	want := "API       URL, ready\nversion   v1.37.0+millrace\nnodes     1 of 1 ready\nrunning   since " + time.Unix(1795948200, 0).Format(time.DateTime) +
		" (" + "90m" + ")\nmemory    100 MiB, 321 goroutines\nobjects   15 of 2 kinds: 12 pods, 3 deployments.apps\nwatchers  4\nwrong     nothing that the API tells\n"
	if got != want || !r.ready {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestWhatIsWrongIsNamed(t *testing.T) {
	a := healthy()
	a["/readyz"] = "[+]ping ok\n[-]store failed: reason withheld\nreadyz check failed\n"
	a["/metrics"] += `millrace_watch_cache_unreadable_objects{resource="pods"} 1` + "\n"
	a["/api/v1/nodes"] = `{"items": [{"metadata": {"name": "one"}, "status": {"conditions": [{"type": "Ready", "status": "False", "message": "no\nruntime"}]}}, {"metadata": {"name": "two"}}]}`
	a["/api/v1/pods"] = `{"metadata": {"continue": "x"}, "items": [{"metadata": {"namespace": "a", "name": "b"}, "status": {"phase": "Pending"}}]}`
	a["/apis/apiregistration.k8s.io/v1/apiservices"] = `{"items": [{"metadata": {"name": "v1.x"}, "status": {"conditions": [{"type": "Available", "status": "False", "message": "no answer"}]}}]}`
	got, r := told(t, a)
	for _, want := range []string{
		"URL, not ready\n", "not ready: store failed: reason withheld\n", "1 stored object cannot be read: lists and watches omit them\n", "0 of 2 ready\n",
		"node one is not ready: no runtime\n", "node two is not ready: it has not said that it is\n", "1 pod and more pending: a/b\n", "API service v1.x is not available: no answer\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("it lacks %q:\n%s", want, got)
		}
	}
	if r.ready {
		t.Error("it counts as ready")
	}
}

func TestWhatTheUserMayNotReadIsSaid(t *testing.T) {
	a := healthy()
	delete(a, "/metrics")
	delete(a, "/api/v1/pods")
	got, r := told(t, a)
	if !strings.Contains(got, "unknown  metrics: you may not\n         pods: you may not\nwrong    nothing that the API tells\n") || !r.ready {
		t.Error(got)
	}
	for _, from := range []answers{{}, {"/version": "<html>"}} {
		server := httptest.NewServer(from)
		s, err := connect(&rest.Config{Host: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.read(t.Context(), now); err == nil || !strings.Contains(err.Error(), "no cluster answers at "+server.URL) {
			t.Error(err)
		}
		server.Close()
	}
}
