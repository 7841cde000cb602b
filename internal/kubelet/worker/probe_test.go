package worker_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/millrace/millrace/internal/kubelet/container"
	"github.com/millrace/millrace/internal/kubelet/worker"
)

func TestARedirectToAnotherHostIsNotFollowedButWarnedOf(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, "http://other.invalid/", http.StatusFound)
		case "/here":
			http.Redirect(w, r, "/", http.StatusFound)
		case "/round":
			http.Redirect(w, r, "/round", http.StatusFound)
		case "/broken":
			http.Error(w, "secret", http.StatusTeapot)
		}
	}))
	defer server.Close()
	ip, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	crew := worker.New(worker.Options{})
	for _, c := range []struct {
		path, want string
		ok         bool
	}{
		{"/", "", true},
		{"/here", "", true},
		{"/away", "Probe terminated redirects, Response body: <a href=\"http://other.invalid/\">Found</a>.", true},
		{"/round", "stopped after 10 redirects", false},
		{"/broken", "HTTP probe failed with statuscode: 418", false},
	} {
		ok, text, err := crew.Get(t.Context(), ip, &corev1.HTTPGetAction{Path: c.path, Port: intstr.Parse(port)})
		if ok != c.ok || !strings.Contains(text, c.want) || c.want == "" && text != "" || err != nil {
			t.Errorf("%s: %t, %q, %v, want %t, %q", c.path, ok, text, err, c.ok, c.want)
		}
	}
}

// Probe answers with a warning, if the stage has one, or as the pod's annotations say.
func (s *stage) Probe(ctx context.Context, id string, kind container.ProbeKind, probe *corev1.Probe) (bool, string, error) {
	s.mu.Lock()
	unstarted := s.unstarted
	s.mu.Unlock()
	switch {
	case s.warning != "":
		return true, s.warning, nil
	case kind == container.Startup && unstarted:
		return false, "it has started long ago", nil
	case probe.Exec != nil && probe.Exec.Command[0] == "hang":
		<-ctx.Done()
		return false, "it hangs", nil
	}
	return s.Runtime.Probe(ctx, id, kind, probe)
}

func TestAWarningOfAProbeBecomesAnEvent(t *testing.T) {
	for _, warning := range []string{"", "careful"} {
		play(t, func(t *testing.T, s *stage) {
			s.warning = warning
			pod := newPod("uid")
			pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 1}
			s.put(pod)
			time.Sleep(time.Minute)
			if !s.status(t, pod).ContainerStatuses[0].Ready {
				t.Errorf("with the warning %q the pod is not ready", warning)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if told := slices.Contains(s.events, "Warning ProbeWarning: Readiness probe warning: careful"); told != (warning != "") {
				t.Errorf("the warning %q: %q", warning, s.events)
			}
		})
	}
}
