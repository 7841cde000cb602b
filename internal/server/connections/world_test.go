package connections

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/server/apiserver"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/pki"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/builtin"
	"github.com/millrace/millrace/internal/server/store/memory"
	"github.com/millrace/millrace/internal/server/watchcache"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// Both belong to the test's client and kubelet: the heartbeat notices only at its next beat that its connection
		// is closed, and SPDY waits for answers that do not come.
		goleak.IgnoreAnyFunction("k8s.io/client-go/tools/remotecommand.(*heartbeat).start"),
		goleak.IgnoreAnyFunction("github.com/moby/spdystream.(*Connection).shutdown"))
}

// world is an API server with a pod on a node, whose kubelet is a handler of the test.
type world struct {
	*Connections
	t      *testing.T
	keys   *pki.Keys
	reg    *registry.Registry
	server *httptest.Server
	config *rest.Config
}

type everybody struct{}

func (everybody) Authenticate(*http.Request) (auth.User, error) {
	return auth.User{Name: "somebody", Groups: []string{auth.Masters}}, nil
}

// newWorld makes a world. Only the admission steps of the options' registry are used.
func newWorld(t *testing.T, kubelet http.Handler, o Options) *world {
	t.Helper()
	w := &world{t: t}
	var err error
	if w.keys, err = pki.Open("", []string{"127.0.0.1"}, time.Now()); err != nil {
		t.Fatal(err)
	}
	w.reg = newRegistry(t, o.Registry)
	client, err := w.keys.Client("kube-apiserver-kubelet-client", []string{auth.Masters}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	o.Registry, o.Certificate = w.reg, client.TLS
	w.Connections = New(o)
	api := apiserver.New(apiserver.Options{Registry: w.reg, Authenticate: everybody{}, Authorize: auth.MastersMay{}, Connections: w.All(), Logger: o.Logger})
	w.server = httptest.NewUnstartedServer(api)
	w.server.EnableHTTP2 = true
	w.server.StartTLS()
	w.config = &rest.Config{Host: w.server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: -1}
	t.Cleanup(func() {
		api.End()
		w.End()
		w.server.CloseClientConnections()
		w.server.Close()
		w.Close()
	})
	w.addNode(kubelet)
	return w
}

func newRegistry(t *testing.T, template *registry.Registry) *registry.Registry {
	t.Helper()
	s := memory.New(memory.Options{})
	cache := watchcache.New(s, watchcache.Options{Root: registry.Root})
	catalogue, err := resource.NewCatalogue(builtin.Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	reg, err := registry.New(registry.Options{Store: s, Cache: cache, Catalogue: catalogue})
	if err != nil {
		t.Fatal(err)
	}
	if template != nil {
		reg.Admission = template.Admission
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		cache.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		s.Close()
	})
	if err := cache.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return reg
}

// create stores an object as it is, including its status.
func (w *world) create(o resource.Object, group, name string) {
	w.t.Helper()
	kind, ok := w.reg.Catalogue.Kind(schema.GroupResource{Group: group, Resource: name})
	if !ok {
		w.t.Fatalf("no kind %s", name)
	}
	storage, err := w.reg.Storage(kind)
	if err != nil {
		w.t.Fatal(err)
	}
	stored := o.DeepCopyObject().(resource.Object)
	if _, err := storage.Create(w.t.Context(), o.GetNamespace(), o, registry.WriteOptions{}); err != nil {
		w.t.Fatal(err)
	}
	if _, hasStatus := kind.Views["status"]; !hasStatus {
		return
	}
	change := func(_ context.Context, old resource.Object) (resource.Object, error) {
		stored.SetResourceVersion(old.GetResourceVersion())
		stored.SetUID(old.GetUID())
		stored.SetCreationTimestamp(old.GetCreationTimestamp())
		return stored, nil
	}
	if _, _, err := storage.Update(w.t.Context(), o.GetNamespace(), o.GetName(), change, registry.UpdateOptions{View: "status"}); err != nil {
		w.t.Fatal(err)
	}
}

// addNode starts a kubelet and creates its node.
func (w *world) addNode(kubelet http.Handler) {
	w.t.Helper()
	server := httptest.NewUnstartedServer(kubelet)
	server.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: w.keys.Clients()}
	server.StartTLS()
	w.t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	w.create(nodeAt("node", server.Listener.Addr().String()), "", "nodes")
	w.create(podWith("pod", "node", "main"), "", "pods")
}

func nodeAt(name, address string) *corev1.Node {
	host, port, _ := net.SplitHostPort(address)
	number, _ := strconv.Atoi(port)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.NodeStatus{
			Addresses:       []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "nowhere.invalid"}, {Type: corev1.NodeInternalIP, Address: host}},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(number)}},
		},
	}
}

func podWith(name, node string, containers ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: corev1.PodSpec{NodeName: node}}
	for _, c := range containers {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: c, Image: "x"})
	}
	p.Spec.RestartPolicy, p.Spec.DNSPolicy = corev1.RestartPolicyAlways, corev1.DNSClusterFirst
	grace := int64(30)
	p.Spec.TerminationGracePeriodSeconds = &grace
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		c.ImagePullPolicy, c.TerminationMessagePath, c.TerminationMessagePolicy = corev1.PullAlways, "/dev/x", corev1.TerminationMessageReadFile
	}
	return p
}

func (w *world) clientset() *kubernetes.Clientset {
	k, err := kubernetes.NewForConfig(w.config)
	if err != nil {
		w.t.Fatal(err)
	}
	return k
}

// do sends a request and returns the response.
func (w *world) do(r *http.Request) (int, string, http.Header) {
	w.t.Helper()
	client := w.server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	answer, err := client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer.StatusCode, string(body), answer.Header
}

func (w *world) request(method, path, body string) *http.Request {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.server.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}
