package scheduler

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
)

// bindAgainst binds a pod with a server that gives these answers in turn, and returns the requests.
func bindAgainst(t *testing.T, answers ...http.HandlerFunc) (asked []corev1.Binding, err error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/api/v1/namespaces/default/pods/web/binding" || r.UserAgent() != "scheduler" {
			t.Errorf("%s %s by %s", r.Method, r.URL.Path, r.UserAgent())
		}
		body, _ := io.ReadAll(r.Body)
		var binding corev1.Binding
		if err := runtime.DecodeInto(scheme.Codecs.UniversalDeserializer(), body, &binding); err != nil {
			t.Error(err)
		}
		asked = append(asked, binding)
		if len(asked) <= len(answers) {
			answers[len(asked)-1](w, r)
		}
	}))
	defer server.Close()
	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: server.URL, UserAgent: "scheduler"})
	err = Server(client.CoreV1()).Bind(t.Context(), &cluster.Pod{Key: keyOf("web"), UID: "17"}, "node-1")
	return asked, err
}

func answer(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

var done = answer(http.StatusCreated, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)

func TestABindingIsOneRequest(t *testing.T) {
	asked, err := bindAgainst(t, done)
	if err != nil || len(asked) != 1 {
		t.Fatalf("%d requests: %v", len(asked), err)
	}
	b := asked[0]
	if b.Name != "web" || b.UID != "17" || b.Target.Kind != "Node" || b.Target.Name != "node-1" {
		t.Errorf("asked for %+v", b)
	}
}

func TestARefusedBindingIsTheErrorThatClientsKnow(t *testing.T) {
	conflict := answer(http.StatusConflict, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409}`)
	if _, err := bindAgainst(t, conflict, conflict); !apierrors.IsConflict(err) {
		t.Errorf("the error is %v", err)
	}
}

func TestABusyServerIsAskedAgain(t *testing.T) {
	asked, err := bindAgainst(t, answer(http.StatusTooManyRequests, "slow down"), answer(http.StatusTooManyRequests, "slow down"), done)
	if err != nil || len(asked) != 3 {
		t.Errorf("%d requests: %v", len(asked), err)
	}
}

func TestAnAnswerThatGotLostIsNoRefusal(t *testing.T) {
	_, err := bindAgainst(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if err == nil || refused(err) || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		t.Errorf("the error is %v", err)
	}
}
