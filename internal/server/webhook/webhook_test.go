package webhook_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/registry/registrytest"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/memory"
	"github.com/millrace/millrace/internal/server/store/storetest"
	"github.com/millrace/millrace/internal/server/webhook"
)

const serviceHost = "hook.n.svc"

// hook is a webhook on a loopback port, with a certificate that it signed itself.
type hook struct {
	*httptest.Server
	bundle []byte
	port   int32
}

func newHook(t testing.TB, host string, serve http.HandlerFunc) *hook {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{host}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	if host != serviceHost {
		template.IPAddresses = nil
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	h := &hook{Server: httptest.NewUnstartedServer(serve), bundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
	h.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	h.Config.ErrorLog = log.New(io.Discard, "", 0)
	h.EnableHTTP2 = true
	h.StartTLS()
	t.Cleanup(h.Close)
	_, text, _ := net.SplitHostPort(h.Listener.Addr().String())
	n, err := strconv.Atoi(text)
	must(t, err)
	h.port = int32(n)
	return h
}

func (h *hook) byURL(path string) webhook.Target {
	return webhook.Target{URL: h.URL + path, CABundle: h.bundle}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func echo(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	w.Write([]byte(r.Proto + " " + r.Host + r.URL.String() + " " + string(b)))
}

func client(t testing.TB, o webhook.Options) *webhook.Client {
	c := webhook.New(o)
	t.Cleanup(c.Close)
	return c
}

func TestAWebhookIsCalledByURLAndItsConnectionIsUsedAgain(t *testing.T) {
	h := newHook(t, serviceHost, echo)
	var dials atomic.Int32
	c := client(t, webhook.Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		dials.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}})
	target := h.byURL("/path")
	target.Timeout = 5 * time.Second
	for range 3 {
		got, err := c.Post(t.Context(), target, []byte("x"))
		if want := "HTTP/2.0 " + h.Listener.Addr().String() + "/path?timeout=5s x"; err != nil || string(got) != want {
			t.Fatalf("got %q and %v, want %q", got, err, want)
		}
	}
	if n := dials.Load(); n != 1 {
		t.Errorf("%d connections were opened", n)
	}
}

func TestThePathOfAWebhookIsCleaned(t *testing.T) {
	h := newHook(t, serviceHost, echo)
	c := client(t, webhook.Options{})
	for path, want := range map[string]string{"": "/", "/": "/", "//path": "/path", "/a/../path/": "/path"} {
		got, err := c.Post(t.Context(), h.byURL(path), []byte("x"))
		if want := "HTTP/2.0 " + h.Listener.Addr().String() + want + " x"; err != nil || string(got) != want {
			t.Errorf("%q: got %q and %v, want %q", path, got, err, want)
		}
	}
}

func TestOnlyTheServerThatWasNamedIsBelieved(t *testing.T) {
	c := client(t, webhook.Options{})
	h, other := newHook(t, serviceHost, echo), newHook(t, "another.n.svc", echo)
	for name, target := range map[string]webhook.Target{
		"of an unknown authority": {URL: h.URL, CABundle: other.bundle},
		"without a bundle":        {URL: h.URL},
		"for another name":        {URL: other.URL, CABundle: other.bundle},
	} {
		if got, err := c.Post(t.Context(), target, nil); err == nil || !strings.Contains(err.Error(), "tls: failed to verify certificate") {
			t.Errorf("%s: got %q and %v", name, got, err)
		}
	}
	if _, err := c.Post(t.Context(), webhook.Target{URL: h.URL, CABundle: []byte("nonsense")}, nil); err == nil || !strings.Contains(err.Error(), "unable to parse bytes as PEM block") {
		t.Errorf("a bundle that is none: %v", err)
	}
}

func TestAnswersAreBoundedAndRedirectsAreNotFollowed(t *testing.T) {
	c := client(t, webhook.Options{})
	endless := newHook(t, serviceHost, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
	})
	if _, err := c.Post(t.Context(), endless.byURL(""), nil); err == nil || !strings.Contains(err.Error(), "longer than 3145728 bytes") {
		t.Errorf("an endless answer: %v", err)
	}
	var calls atomic.Int32
	circle := newHook(t, serviceHost, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		http.Redirect(w, r, "/again", http.StatusTemporaryRedirect)
	})
	if _, err := c.Post(t.Context(), circle.byURL(""), nil); err == nil || calls.Load() != 1 {
		t.Errorf("%d calls of a server that redirects: %v", calls.Load(), err)
	}
}

func TestWhatAServerAnswersInsteadIsTheError(t *testing.T) {
	c := client(t, webhook.Options{})
	h := newHook(t, serviceHost, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/text":
			http.Error(w, "it is broken", http.StatusInternalServerError)
		case "/status":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"not you","reason":"Forbidden","code":403}`)
		default:
			http.NotFound(w, r)
		}
	})
	for path, want := range map[string]string{
		"/text":   `an error on the server ("it is broken") has prevented the request from succeeding`,
		"/status": "not you",
		"/none":   "the server could not find the requested resource",
	} {
		if _, err := c.Post(t.Context(), h.byURL(path), nil); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", path, err, want)
		}
	}
}

func TestAServerThatHangsIsGivenUp(t *testing.T) {
	for _, protocol := range []string{"h2", "http/1.1"} {
		c := client(t, webhook.Options{})
		// It ends its answer when the call ends, so that the answer looks complete to a client that reads it all the
		// same.
		h := newHook(t, serviceHost, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		h.TLS.NextProtos = []string{protocol}
		target := h.byURL("")
		target.Timeout = time.Millisecond
		for range 300 {
			if answer, err := c.Post(t.Context(), target, nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("%s: got %q and %v", protocol, answer, err)
			}
		}
	}
}

func TestClosingEndsCallsAndConnections(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	called := make(chan struct{}, 8)
	release := make(chan struct{})
	h := newHook(t, serviceHost, func(_ http.ResponseWriter, r *http.Request) {
		called <- struct{}{}
		select {
		case <-r.Context().Done():
		case <-release:
		}
	})
	c := webhook.New(webhook.Options{})
	var calls sync.WaitGroup
	for range cap(called) {
		calls.Go(func() {
			if _, err := c.Post(context.Background(), h.byURL(""), nil); err == nil {
				t.Error("a call outlived its client")
			}
		})
	}
	for range cap(called) {
		<-called
	}
	c.Close()
	calls.Wait()
	if _, err := c.Post(t.Context(), h.byURL(""), nil); !errors.Is(err, webhook.ErrClosed) {
		t.Errorf("a closed client says %v", err)
	}
	close(release)
	h.Close()
}

// world is a registry with services, on a store whose log can be held.
type world struct {
	testing.TB
	*registry.Registry
	log *storetest.LateLog
}

func newWorld(t testing.TB) *world {
	t.Helper()
	s := memory.New(memory.Options{})
	t.Cleanup(func() { s.Close() })
	return openWorld(t, s)
}

// openWorld opens the registry of a server on a store that others may use, too.
func openWorld(t testing.TB, s store.Store) *world {
	t.Helper()
	log := storetest.NewLateLog(s)
	return &world{t, registrytest.Open(t, log), log}
}

func (w *world) create(group, of string, o resource.Object) {
	w.Helper()
	kind, ok := w.Catalogue.Kind(schema.GroupResource{Group: group, Resource: of})
	if !ok {
		w.Fatalf("%s are not served", of)
	}
	s, err := w.Storage(kind)
	must(w, err)
	kind.Default(o)
	_, err = s.Create(w.Context(), "n", o, registry.WriteOptions{})
	must(w, err)
}

func service() *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "hook", Namespace: "n"}, Spec: corev1.ServiceSpec{
		ClusterIP: "10.96.0.9", ClusterIPs: []string{"10.96.0.9"}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, IPFamilyPolicy: new(corev1.IPFamilyPolicySingleStack),
		Ports: []corev1.ServicePort{{Name: "web", Port: 443, TargetPort: intstr.FromInt(8443)}}}}
}

func slice(port int32, addresses ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "hook-1", Namespace: "n", Labels: map[string]string{discoveryv1.LabelServiceName: "hook"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: new("web"), Port: &port}},
	}
	for _, a := range addresses {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
	}
	return s
}

// toLoopback opens connections for all addresses on this machine.
func toLoopback(ctx context.Context, network, address string) (net.Conn, error) {
	_, port, _ := net.SplitHostPort(address)
	return (&net.Dialer{}).DialContext(ctx, network, "127.0.0.1:"+port)
}

func TestAServiceIsReachedThroughItsEndpoints(t *testing.T) {
	w := newWorld(t)
	h := newHook(t, serviceHost, echo)
	// Nothing listens at 10.1.0.1, and the other address is the webhook.
	c := client(t, webhook.Options{Registry: w.Registry, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if strings.HasPrefix(address, "10.1.0.1:") {
			return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
		}
		return toLoopback(ctx, network, address)
	}})
	target := webhook.Target{Service: &webhook.Service{Namespace: "n", Name: "hook", Path: "/p"}, CABundle: h.bundle}
	fails := func(want string) {
		t.Helper()
		if got, err := c.Post(t.Context(), target, nil); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("got %q and %v, want %s", got, err, want)
		}
	}
	fails(`Post "https://hook.n.svc:443/p": service "hook" not found`)
	w.create("", "services", service())
	fails(`no endpoints available for service "hook"`)
	w.create(discoveryv1.GroupName, "endpointslices", slice(h.port, "10.1.0.1", "10.1.0.2"))
	for range 5 {
		got, err := c.Post(t.Context(), target, []byte("x"))
		if want := "HTTP/2.0 hook.n.svc:443/p x"; err != nil || string(got) != want {
			t.Errorf("got %q and %v, want %q", got, err, want)
		}
	}
	target.Service.Port = 8443
	fails(`no service port 8443 found for service "hook"`)
}

func TestAServiceWithoutSlicesIsReachedByItsEndpoints(t *testing.T) {
	w := newWorld(t)
	h := newHook(t, serviceHost, echo)
	c := client(t, webhook.Options{Registry: w.Registry, Dial: toLoopback})
	w.create("", "services", service())
	w.create("", "endpoints", &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "hook", Namespace: "n"}, Subsets: []corev1.EndpointSubset{{ //nolint:staticcheck // they are still part of the API
		Addresses: []corev1.EndpointAddress{{IP: "10.1.0.2"}}, Ports: []corev1.EndpointPort{{Name: "web", Port: h.port}}}}})
	if _, err := c.Post(t.Context(), webhook.Target{Service: &webhook.Service{Namespace: "n", Name: "hook"}, CABundle: h.bundle}, nil); err != nil {
		t.Error(err)
	}
}

// While the log is late, a webhook is called where it was before; what would be missing is asked for.
func TestAWebhookIsFoundThoughTheLogIsHeld(t *testing.T) {
	w := newWorld(t)
	other := openWorld(t, w.log.Store)
	h, moved := newHook(t, serviceHost, echo), newHook(t, serviceHost, func(http.ResponseWriter, *http.Request) {
		t.Error("the address that has not come yet is called")
	})
	c := client(t, webhook.Options{Registry: w.Registry, Dial: toLoopback})
	call := func() error {
		_, err := c.Post(t.Context(), webhook.Target{Service: &webhook.Service{Namespace: "n", Name: "hook"}, CABundle: h.bundle}, nil)
		return err
	}
	release := w.log.Hold()
	other.create("", "services", service())
	other.create(discoveryv1.GroupName, "endpointslices", slice(h.port, "10.1.0.2"))
	if err := call(); err != nil {
		t.Errorf("a service that another server has made is not found: %v", err)
	}
	release()
	for !w.sees("hook-1") {
		time.Sleep(time.Millisecond)
	}
	defer w.log.Hold()()
	added := slice(moved.port, "10.1.0.3")
	added.Name = "hook-2"
	other.create(discoveryv1.GroupName, "endpointslices", added)
	for range 10 {
		if err := call(); err != nil {
			t.Errorf("the address of before: %v", err)
		}
	}
}

// sees says whether the cache has an endpoint slice.
func (w *world) sees(name string) bool {
	w.Helper()
	kind, _ := w.Catalogue.Kind(schema.GroupResource{Group: discoveryv1.GroupName, Resource: "endpointslices"})
	s, err := w.Storage(kind)
	must(w, err)
	_, err = s.Get(w.Context(), "n", name, registry.Freshness{Any: true})
	return err == nil
}
