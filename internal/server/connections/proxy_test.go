package connections

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// mirror answers with the request that it got.
func mirror(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Access-Control-Allow-Origin", "*")
	if r.URL.Path == "/away" {
		w.Header().Set("Location", "/home")
		w.WriteHeader(http.StatusFound)
		return
	}
	fmt.Fprintf(w, "%s %s %s [%s] %s", r.Method, r.URL.RequestURI(), body, r.Header.Get("Authorization"), r.Header.Get("X-Forwarded-Uri"))
}

func TestLinksInPagesAreRewrittenForTheProxy(t *testing.T) {
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, `<a href="/rewriteme">test</a>`)
	})
	backend := httptest.NewServer(page)
	t.Cleanup(backend.Close)
	var asked []string
	w := newWorld(t, page, inPods(backend, &asked))
	pod := podWith("web", "node", "main")
	pod.Status = corev1.PodStatus{PodIP: "10.1.2.3", PodIPs: []corev1.PodIP{{IP: "10.1.2.3"}}}
	w.create(pod, "", "pods")
	w.create(serviceOf("svc"), "", "services")
	w.create(slicesOf("svc", "10.1.2.3", "web"), discoveryv1.GroupName, "endpointslices")
	for _, proxy := range []string{
		"/api/v1/nodes/node/proxy", "/api/v1/namespaces/default/pods/http:web:8080/proxy", "/api/v1/namespaces/default/services/svc:http/proxy",
	} {
		if code, body, _ := w.do(w.request("GET", proxy+"/", "")); code != 200 || body != `<a href="`+proxy+`/rewriteme">test</a>` {
			t.Errorf("%s: %d %s", proxy, code, body)
		}
	}
}

func TestPagesAreDecompressedAndBounded(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		defer z.Close()
		fmt.Fprint(z, `<a href="/rewriteme">test</a>`)
		if r.URL.Path == "/bomb" {
			for blank := make([]byte, 1<<20); r.Context().Err() == nil; {
				if _, err := z.Write(blank); err != nil {
					return
				}
			}
		}
	}), Options{})
	const want = `<a href="/api/v1/nodes/node/proxy/rewriteme">test</a>`
	if code, body, header := w.do(w.request("GET", "/api/v1/nodes/node/proxy/page", "")); code != 200 || body != want || header.Get("Content-Encoding") != "" {
		t.Errorf("%d %s %v", code, body, header)
	}
	if code, body, _ := w.do(w.request("GET", "/api/v1/nodes/node/proxy/bomb", "")); code != 500 || !strings.Contains(body, "too long") {
		t.Errorf("a page without an end: %d %.200s", code, body)
	}
}

func TestTheServerConnectsOnlyToAddressesThatCanBeANodes(t *testing.T) {
	var own netip.AddrPort
	w := newWorld(t, http.HandlerFunc(mirror), Options{Own: func(at netip.AddrPort) bool { return at == own }})
	own = netip.MustParseAddrPort(strings.TrimPrefix(w.server.URL, "https://"))
	for name, address := range map[string]string{
		"self": own.Addr().String(), "name": "localhost", "metadata": "169.254.169.254", "nobody": "0.0.0.0", "many": "224.0.0.1", "all": "255.255.255.255", "mapped": "::ffff:169.254.169.254",
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
			Addresses:       []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: address}},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(own.Port())}},
		}}
		w.create(node, "", "nodes")
		w.create(podWith("on-"+name, name, "main"), "", "pods")
		for _, path := range []string{"nodes/" + name + "/proxy/", "namespaces/default/pods/on-" + name + "/log"} {
			if code, body, _ := w.do(w.request("GET", "/api/v1/"+path, "")); code != 400 || !strings.Contains(body, "address not allowed") {
				t.Errorf("%s at %s: %d %s", path, address, code, body)
			}
		}
	}
}

func TestRequestsToNodesAreProxiedWithAnyMethodButWithoutCredentials(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(mirror), Options{})
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		r := w.request(method, "/api/v1/nodes/node/proxy/a/b/?q=1", "body")
		r.Header.Set("Authorization", "Bearer secret")
		code, body, header := w.do(r)
		if want := method + " /a/b/?q=1 body [] /api/v1/nodes/node/proxy/a/b/"; code != 200 || body != want || header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%d %q, want %q, %v", code, body, want, header)
		}
	}
	if code, _, header := w.do(w.request("GET", "/api/v1/nodes/node/proxy?q=1", "")); code != 301 || header.Get("Location") != "/api/v1/nodes/node/proxy/?q=1" {
		t.Errorf("%d to %s", code, header.Get("Location"))
	}
	if code, _, header := w.do(w.request("GET", "/api/v1/nodes/node/proxy/away", "")); code != 302 || !strings.HasSuffix(header.Get("Location"), "/api/v1/nodes/node/proxy/home") {
		t.Errorf("%d to %s", code, header.Get("Location"))
	}
	if code, body, _ := w.do(w.request("GET", "/api/v1/nodes/node:1/proxy/", "")); code != 400 || !strings.Contains(body, "address not allowed") {
		t.Errorf("another port of the server's own machine: %d %s", code, body)
	}
	if code, body, _ := w.do(w.request("GET", "/api/v1/nodes/ftp:node:1/proxy/", "")); code != 400 || !strings.Contains(body, "invalid node request") {
		t.Errorf("%d %s", code, body)
	}
}

// inPods connects to the backend for every address of a pod.
func inPods(backend *httptest.Server, asked *[]string) Options {
	return Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if strings.HasPrefix(address, "10.") {
			*asked = append(*asked, address)
			address = backend.Listener.Addr().String()
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}
}

func TestAPodThatDoesNotAnswerIsNoTroubleOfTheServer(t *testing.T) {
	var log bytes.Buffer
	w := newWorld(t, http.NotFoundHandler(), Options{
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Dial:   func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("connection refused") },
	})
	pod := podWith("web", "node", "main")
	pod.Status = corev1.PodStatus{PodIP: "10.1.2.3", PodIPs: []corev1.PodIP{{IP: "10.1.2.3"}}}
	w.create(pod, "", "pods")
	code, body, _ := w.do(w.request("GET", "/api/v1/namespaces/default/pods/http:web:8080/proxy/path", ""))
	if code != 503 || !strings.Contains(body, "error trying to reach service: connection refused") {
		t.Errorf("the answer is %d %s", code, body)
	}
	if log.Len() > 0 {
		t.Errorf("the server logs %s", &log)
	}
	w.do(w.request("GET", "/api/v1/nodes/node/proxy/healthz", ""))
	if !strings.Contains(log.String(), "level=WARN") {
		t.Error("a kubelet that does not answer is not logged")
	}
}

func TestPodsAndServicesAreProxiedTo(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(mirror))
	t.Cleanup(backend.Close)
	var asked []string
	w := newWorld(t, http.NotFoundHandler(), inPods(backend, &asked))
	pod := podWith("web", "node", "main")
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080, Protocol: corev1.ProtocolTCP}}
	pod.Status = corev1.PodStatus{PodIP: "10.1.2.3", PodIPs: []corev1.PodIP{{IP: "10.1.2.3"}}}
	w.create(pod, "", "pods")
	local := podWith("local", "node", "main")
	local.Status = corev1.PodStatus{PodIP: "127.0.0.1", PodIPs: []corev1.PodIP{{IP: "127.0.0.1"}}}
	w.create(local, "", "pods")
	w.create(serviceOf("svc"), "", "services")
	w.create(serviceOf("empty"), "", "services")
	w.create(slicesOf("svc", "10.1.2.3", "web"), discoveryv1.GroupName, "endpointslices")
	for _, c := range []struct {
		path string
		code int
		want string
		dial string
	}{
		{"pods/web/proxy/x", 200, "GET /x ", "10.1.2.3:8080"},
		{"pods/web:9090/proxy/x", 200, "GET /x ", "10.1.2.3:9090"},
		{"pods/http:web:9091/proxy/", 200, "GET / ", "10.1.2.3:9091"},
		{"pods/local:80/proxy/", 400, "address not allowed", ""},
		{"pods/pod:80/proxy/", 400, "address not allowed", ""},
		{"pods/none:80/proxy/", 404, "not found", ""},
		{"services/svc:http/proxy/y?z", 200, "GET /y?z ", "10.1.2.3:8000"},
		{"services/svc:80/proxy/", 200, "GET / ", "10.1.2.3:8000"},
		{"services/svc:81/proxy/", 503, `no service port 81 found for service \"svc\"`, ""},
		{"services/svc/proxy/", 503, `no endpoints available for service \"svc\"`, ""},
		{"services/empty:http/proxy/", 503, `no endpoints available for service \"empty:http\"`, ""},
		{"services/none:http/proxy/", 404, `services \"none\" not found`, ""},
	} {
		asked = nil
		w.backend.CloseIdleConnections()
		code, body, _ := w.do(w.request("GET", "/api/v1/namespaces/default/"+c.path, ""))
		if code != c.code || !strings.Contains(body, c.want) || strings.Join(asked, " ") != c.dial {
			t.Errorf("%s: %d %s, dialled %v", c.path, code, body, asked)
		}
	}
}

func TestAServiceIsNotProxiedToAnAddressThatIsNotAPods(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(mirror))
	t.Cleanup(backend.Close)
	var asked []string
	w := newWorld(t, http.NotFoundHandler(), inPods(backend, &asked))
	w.create(serviceOf("svc"), "", "services")
	w.create(slicesOf("svc", "10.9.9.9", "pod"), discoveryv1.GroupName, "endpointslices")
	if code, body, _ := w.do(w.request("GET", "/api/v1/namespaces/default/services/svc:http/proxy/", "")); code != 503 || len(asked) != 0 {
		t.Errorf("%d %s, dialled %v", code, body, asked)
	}
}

func serviceOf(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: corev1.ClusterIPNone, ClusterIPs: []string{corev1.ClusterIPNone}, SessionAffinity: corev1.ServiceAffinityNone,
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(8000)}},
		},
	}
}

func slicesOf(service, address, pod string) *discoveryv1.EndpointSlice {
	port, name, protocol := int32(8000), "http", corev1.ProtocolTCP
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: service + "-1", Namespace: "default", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: pod}}},
	}
}
