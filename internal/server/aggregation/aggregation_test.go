package aggregation_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/millrace/millrace/internal/server/aggregation"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/registry"
)

const resources = `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"wardle.example/v1","resources":[
	{"name":"flunders","singularName":"flunder","namespaced":true,"kind":"Flunder","verbs":["get","list"]},
	{"name":"flunders/status","namespaced":true,"kind":"Flunder","verbs":["get"]}]}`

// example answers for flunders, and tells what it was sent.
func example(seen chan<- *http.Request) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/apis/wardle.example/v1" {
			io.WriteString(w, resources)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/openapi/") {
			http.NotFound(w, r)
			return
		}
		n, _ := io.Copy(io.Discard, r.Body)
		w.Header().Set("Audit-Id", "its")
		seen <- r
		fmt.Fprintf(w, "%d bytes", n)
	})
}

func TestRequestsReachTheServerOfTheirGroupWithTheirUser(t *testing.T) {
	w := newWorld(t, nil)
	seen := make(chan *http.Request, 1)
	w.serveElsewhere(flunders, example(seen))
	w.condition("v1.wardle.example", "Passed")
	for w.a.Handler(flunders) == nil {
		w.condition("v1.wardle.example", "Passed")
	}
	const size = 4 << 20
	q := httptest.NewRequest(http.MethodPost, "/apis/wardle.example/v1/flunders?a=b", strings.NewReader(strings.Repeat("x", size)))
	q.Header.Set("X-Remote-User", "mallory")
	q.Header.Set("X-Remote-Extra-Scopes", "all")
	q.Header.Set("Authorization", "Bearer secret")
	u := auth.User{Name: "jane", UID: "7", Groups: []string{"a", "b"}, Extra: map[string][]string{"example.com/team": {"one", "two"}}}
	var answer *http.Response
	for answer == nil || answer.StatusCode == http.StatusServiceUnavailable { // until the condition has come round
		answer = w.ask(flunders, u, q)
	}
	text, err := io.ReadAll(answer.Body)
	w.must(err)
	if want := fmt.Sprintf("%d bytes", size); answer.StatusCode != http.StatusOK || string(text) != want {
		t.Fatalf("answer %d %q, want %q", answer.StatusCode, text, want)
	}
	got := <-seen
	for name, want := range map[string]string{
		"X-Remote-User": "jane", "X-Remote-Uid": "7", "X-Remote-Group": "a,b", "X-Remote-Extra-Example.com%2fteam": "one,two",
		"X-Remote-Extra-Scopes": "", "Authorization": "",
	} {
		if values := strings.Join(got.Header[http.CanonicalHeaderKey(name)], ","); values != want {
			t.Errorf("%s is %q, want %q (of %v)", name, values, want, got.Header)
		}
	}
	if names := answer.Header["Audit-Id"]; names != nil {
		t.Errorf("the answer is named %q once more", names)
	}
	if got.URL.RawQuery != "a=b" || got.ProtoMajor != 2 {
		t.Errorf("asked %s by %s", got.URL, got.Proto)
	}
}

func TestDiscoveryShowsWhatAnotherServerSays(t *testing.T) {
	w := newWorld(t, nil)
	w.serveElsewhere(flunders, example(nil))
	w.condition("v1.wardle.example", "Passed")
	_, all := w.a.Groups()
	if len(all) != 1 || all[0].GroupVersion != flunders || all[0].Priority.Group != 2000 {
		t.Fatalf("groups: %+v", all)
	}
	d := all[0].Discovery
	if len(d.Resources) != 1 || d.Resources[0].Resource != "flunders" || d.Resources[0].ResponseKind.Kind != "Flunder" || len(d.Resources[0].Subresources) != 1 {
		t.Errorf("discovery: %+v", d)
	}
}

func TestConditionsSayWhatIsWrong(t *testing.T) {
	w := newWorld(t, nil)
	w.create("apiregistration.k8s.io", "apiservices", remote(flunders, 443))
	if c := w.condition("v1.wardle.example", "ServiceNotFound"); c.Status != "False" || c.Message != `service/example in "default" is not present` {
		t.Errorf("%+v", c)
	}
	w.create("", "services", &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "example"},
		Spec:       corev1.ServiceSpec{ClusterIP: "10.0.0.1", Ports: []corev1.ServicePort{{Name: "https", Port: 444, Protocol: "TCP"}}},
	})
	if c := w.condition("v1.wardle.example", "ServicePortError"); c.Message != `service/example in "default" is not listening on port 443` {
		t.Errorf("%+v", c)
	}
	w.change("services", "example", func(s *corev1.Service) { s.Spec.Ports[0].Port = 443 })
	if c := w.condition("v1.wardle.example", "EndpointsNotFound"); c.Message != `cannot find endpointslices for service/example in "default"` {
		t.Errorf("%+v", c)
	}
	w.create("discovery.k8s.io", "endpointslices", &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: "example-1", Labels: map[string]string{discoveryv1.LabelServiceName: "example"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: new("https"), Port: new(int32(8443))}},
	})
	if c := w.condition("v1.wardle.example", "MissingEndpoints"); c.Message != `endpointslices for service/example in "default" have no addresses with port name "https"` {
		t.Errorf("%+v", c)
	}
	answer := w.ask(flunders, auth.User{}, httptest.NewRequest(http.MethodGet, "/apis/wardle.example/v1/flunders", nil))
	if text, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusServiceUnavailable || string(text) != "service unavailable\n" {
		t.Errorf("answer %d %q", answer.StatusCode, text)
	}
}

func TestServerWithAnotherNameIsNotBelieved(t *testing.T) {
	w := newWorld(t, nil)
	server := w.serveElsewhere(schema.GroupVersion{Group: "other.example", Version: "v1"}, example(nil))
	o := remote(flunders, 0)
	o.Spec.InsecureSkipTLSVerify, o.Spec.CABundle = false, bundle(server.Certificate())
	o.Spec.Service.Port = new(portOf(t, server))
	w.create("apiregistration.k8s.io", "apiservices", o)
	if c := w.condition("v1.wardle.example", "FailedDiscoveryCheck"); !strings.Contains(c.Message, "not example.default.svc") {
		t.Errorf("%+v", c)
	}
}

func TestBackendAnswersUntilAServiceTakesItsPlace(t *testing.T) {
	here := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "here, %s", auth.UserFrom(r.Context()).Name)
	})
	w := newWorld(t, map[schema.GroupVersion]aggregation.Backend{flunders: {Handler: here}})
	text := func() string {
		b, err := io.ReadAll(w.ask(flunders, auth.User{Name: "jane"}, httptest.NewRequest(http.MethodGet, "/", nil)).Body)
		w.must(err)
		return string(b)
	}
	if got := text(); got != "here, jane" {
		t.Errorf("answer %q", got)
	}
	w.point("v1.wardle.example", remote(flunders, 443))
	w.condition("v1.wardle.example", "ServiceNotFound")
	for text() != "service unavailable\n" { // until the condition has come round
		if t.Context().Err() != nil {
			t.Fatalf("answer %q", text())
		}
	}
	_, err := w.storage("apiregistration.k8s.io", "apiservices").Delete(t.Context(), "", "v1.wardle.example", metav1.DeleteOptions{}, registry.WriteOptions{})
	w.must(err)
}

func TestWhatIsServedHereHasAnAPIService(t *testing.T) {
	w := newWorld(t, nil)
	for _, name := range []string{"v1.", "v1.apps", "v2.autoscaling"} {
		if c := w.condition(name, "Local"); c.Status != "True" || c.Message != "Local APIServices are always available" {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if h := w.a.Handler(schema.GroupVersion{Group: "apps", Version: "v1"}); h != nil {
		t.Error("somebody else answers for apps")
	}
}

func TestAnAPIServiceOfAnEarlierStartThatNobodyWantsIsDeleted(t *testing.T) {
	w := newWorld(t, nil)
	made := func(name, how string) *v1.APIService {
		o := &v1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1." + name}, Spec: v1.APIServiceSpec{Group: name, Version: "v1", GroupPriorityMinimum: 2000, VersionPriority: 10}}
		if how != "" {
			o.Labels = map[string]string{"kube-aggregator.kubernetes.io/automanaged": how}
		}
		return o
	}
	w.create("apiregistration.k8s.io", "apiservices", made("earlier.example", "onstart"))
	w.create("apiregistration.k8s.io", "apiservices", made("mine.example", ""))
	w.condition("v1.earlier.example", "Local") // nothing deletes it before the next start
	w.must(w.a.Register(t.Context()))
	s := w.storage("apiregistration.k8s.io", "apiservices")
	for name, want := range map[string]bool{"v1.earlier.example": false, "v1.mine.example": true, "v1.apps": true} {
		if _, err := s.Get(t.Context(), "", name, registry.Freshness{}); apierrors.IsNotFound(err) == want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
