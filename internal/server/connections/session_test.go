package connections

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	spdytransport "k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"
	forwarding "k8s.io/cri-streaming/pkg/streaming/portforward"
	remote "k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/millrace/millrace/internal/server/registry"
)

// echo is a kubelet whose commands and port-forwards echo their input.
type echo struct{ ended chan struct{} }

func (e *echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() { e.ended <- struct{}{} }()
	switch {
	case strings.HasPrefix(r.URL.Path, "/portForward/default/pod"):
		forwarding.ServePortForward(w, r, e, "pod", "", &forwarding.V4Options{}, time.Minute, time.Minute, forwarding.SupportedProtocols)
	case websocket.IsWebSocketUpgrade(r):
		repeatMessages(w, r)
	default:
		o, err := remote.NewOptions(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		remote.ServeExec(w, r, e, "pod", "", "main", r.URL.Query()["command"], o, time.Minute, time.Minute, remote.SupportedStreamingProtocols)
	}
}

// ExecInContainer echoes, unless it is told to fail. It reads its input first: the SPDY library can lose the output of
// a command that ends while its streams are being opened.
func (e *echo) ExecInContainer(_ context.Context, _, _, _ string, cmd []string, in io.Reader, out, _ io.WriteCloser, _ bool, _ <-chan remote.TerminalSize, _ time.Duration) error {
	if cmd[0] == "fail" {
		if _, err := io.Copy(io.Discard, in); err != nil {
			return err
		}
		return exec.CodeExitError{Err: errors.New("exit status 7"), Code: 7}
	}
	_, err := io.Copy(out, in)
	return err
}

// PortForward echoes.
func (e *echo) PortForward(_ context.Context, _, _ string, _ int32, stream io.ReadWriteCloser) error {
	defer stream.Close()
	_, err := io.Copy(stream, stream)
	return err
}

// repeatMessages implements v5.channel.k8s.io: the first byte of a message is its channel, and a message on channel 255
// closes another channel.
func repeatMessages(w http.ResponseWriter, r *http.Request) {
	conn, err := (&websocket.Upgrader{Subprotocols: []string{"v5.channel.k8s.io"}}).Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer conn.Close()
	status := `{"status":"Success"}`
	if r.URL.Query().Get("command") == "fail" {
		status = `{"status":"Failure","reason":"NonZeroExitCode","message":"failed","details":{"causes":[{"reason":"ExitCode","message":"7"}]}}`
	}
	for {
		_, m, err := conn.ReadMessage()
		if err != nil {
			return
		}
		if m[0] == 255 {
			break
		}
		conn.WriteMessage(websocket.BinaryMessage, append([]byte{1}, m[1:]...))
	}
	conn.WriteMessage(websocket.BinaryMessage, append([]byte{3}, status...))
	conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(time.Second))
}

func (w *world) execURL(command string) *url.URL {
	u, err := url.Parse(w.server.URL + logPath + "pod/exec?stdin=true&stdout=true&command=" + command)
	if err != nil {
		w.t.Fatal(err)
	}
	return u
}

func (w *world) executors(command string) map[string]remotecommand.Executor {
	u := w.execURL(command)
	ws, err := remotecommand.NewWebSocketExecutor(w.config, http.MethodGet, u.String())
	if err != nil {
		w.t.Fatal(err)
	}
	spdy, err := remotecommand.NewSPDYExecutor(w.config, http.MethodPost, u)
	if err != nil {
		w.t.Fatal(err)
	}
	return map[string]remotecommand.Executor{"WebSocket": ws, "SPDY": spdy}
}

func TestCommandsGetTheirInputAndReturnTheirOutput(t *testing.T) {
	kubelet := &echo{ended: make(chan struct{}, 10)}
	w := newWorld(t, kubelet, Options{})
	text := strings.Repeat("a long line of input, ", 20_000)
	for name, e := range w.executors("cat") {
		var out bytes.Buffer
		if err := e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader(text), Stdout: &out}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if out.String() != text {
			t.Errorf("%s: got %d bytes of %d back", name, out.Len(), len(text))
		}
		<-kubelet.ended
	}
}

func TestExitCodesAreReturned(t *testing.T) {
	w := newWorld(t, &echo{ended: make(chan struct{}, 10)}, Options{})
	for name, e := range w.executors("fail") {
		err := e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader(""), Stdout: io.Discard})
		if code, ok := err.(exec.CodeExitError); !ok || code.Code != 7 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSessionsEndWithTheirClientAndWithTheServer(t *testing.T) {
	kubelet := &echo{ended: make(chan struct{}, 10)}
	w := newWorld(t, kubelet, Options{})
	for name, e := range w.executors("cat") {
		ctx, cancel := context.WithCancel(t.Context())
		in, typed := io.Pipe()
		out, shown := io.Pipe()
		failed := make(chan error, 1)
		go func() { failed <- e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: shown}) }()
		typed.Write([]byte("x"))
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if name == "SPDY" {
			cancel()
		} else {
			w.End()
		}
		if err := <-failed; err == nil {
			t.Errorf("%s: no error", name)
		}
		<-kubelet.ended
		cancel()
		typed.Close()
		out.Close()
		if name == "WebSocket" {
			return // the server has ended
		}
	}
}

func TestPortsAreForwarded(t *testing.T) {
	kubelet := &echo{ended: make(chan struct{}, 10)}
	w := newWorld(t, kubelet, Options{})
	u, err := url.Parse(w.server.URL + logPath + "pod/portforward")
	if err != nil {
		t.Fatal(err)
	}
	transport, upgrader, err := spdytransport.RoundTripperFor(w.config)
	if err != nil {
		t.Fatal(err)
	}
	wrapped, err := portforward.NewSPDYOverWebsocketDialerForStreaming(u, w.config)
	if err != nil {
		t.Fatal(err)
	}
	dialers := map[string]httpstream.Dialer{
		"SPDY":                   spdytransport.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, u),
		"SPDY within WebSockets": wrapped,
	}
	for name, d := range dialers {
		stop, ready := make(chan struct{}), make(chan struct{})
		f, err := portforward.NewForStreaming(d, []string{"0:80"}, stop, ready, io.Discard, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- f.ForwardPorts() }()
		select {
		case <-ready:
		case err := <-done:
			t.Fatalf("%s: %v", name, err)
		}
		ports, _ := f.GetPorts()
		if got := roundTrip(t, int(ports[0].Local), "hello"); got != "hello" {
			t.Errorf("%s: got %q", name, got)
		}
		close(stop)
		<-done
		<-kubelet.ended
	}
}

func roundTrip(t *testing.T, port int, text string) string {
	t.Helper()
	conn, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.Write([]byte(text))
	conn.CloseWrite()
	got, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

// TestTheTokenOfAWebSocketStaysWithTheServer sends a token as browsers do, among the protocols of a WebSocket.
func TestTheTokenOfAWebSocketStaysWithTheServer(t *testing.T) {
	const protocol = "base64url.bearer.authorization.k8s.io.c2VjcmV0" // "secret"
	received := make(chan http.Header, 10)
	record := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		received <- r.Header
		http.Error(w, "no", http.StatusForbidden)
	})
	backend := httptest.NewServer(record)
	t.Cleanup(backend.Close)
	var asked []string
	w := newWorld(t, record, inPods(backend, &asked))
	pod := podWith("web", "node", "main")
	pod.Status = corev1.PodStatus{PodIP: "10.1.2.3", PodIPs: []corev1.PodIP{{IP: "10.1.2.3"}}}
	w.create(pod, "", "pods")
	w.create(serviceOf("svc"), "", "services")
	w.create(slicesOf("svc", "10.1.2.3", "web"), discoveryv1.GroupName, "endpointslices")
	for path, spoken := range map[string]string{
		"namespaces/default/pods/pod/exec?command=ls&stdout=1": "v5.channel.k8s.io", "namespaces/default/pods/pod/attach?stdout=1": "v5.channel.k8s.io",
		"namespaces/default/pods/pod/portforward": "SPDY/3.1+portforward.k8s.io", "namespaces/default/pods/web:80/proxy/": "chat",
		"namespaces/default/services/svc:http/proxy/": "chat", "nodes/node/proxy/": "chat",
	} {
		d := websocket.Dialer{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, Subprotocols: []string{spoken, protocol}}
		_, answer, err := d.Dial("wss"+strings.TrimPrefix(w.server.URL, "https")+"/api/v1/"+path, http.Header{"Authorization": {"Bearer secret"}})
		if err == nil || answer == nil {
			t.Fatalf("%s: %v", path, err)
		}
		select {
		case h := <-received:
			for name, values := range h {
				if text := strings.Join(values, " "); strings.Contains(text, "secret") || strings.Contains(text, "c2VjcmV0") {
					t.Errorf("%s: the backend gets %s: %s", path, name, text)
				}
			}
		default:
			t.Errorf("%s does not reach the backend: %s", path, answer.Status)
		}
	}
}

func TestInvalidSessionsAreRefused(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/attach") {
			w.WriteHeader(http.StatusOK)
			return
		}
		http.Error(w, "this node pretends its containers: "+r.URL.RequestURI(), http.StatusNotImplemented)
	}), Options{})
	w.create(podWith("waiting", "", "main"), "", "pods")
	w.create(nodeAt("away", "127.0.0.1:1"), "", "nodes")
	w.create(podWith("gone", "away", "main"), "", "pods")
	for _, c := range []struct {
		path, upgrade string
		code          int
		want          string
	}{
		{"pod/exec?command=ls&stdout=1", "", 400, "Upgrade request required"},
		{"waiting/exec?command=ls", "SPDY/3.1", 400, "pod waiting does not have a host assigned"},
		{"waiting/portforward", "SPDY/3.1", 400, "pod waiting does not have a host assigned"},
		{"waiting/attach?container=x", "SPDY/3.1", 400, "container x is not valid for pod waiting"},
		{"pod/exec?command=ls&stdout=1&tty=true", "SPDY/3.1", 501, "this node pretends its containers: /exec/default/pod/main?command=ls&output=1&tty=1"},
		{"pod/attach?stdout=1", "SPDY/3.1", 500, "invalid upgrade response: status code 200"},
		{"gone/exec?command=ls", "SPDY/3.1", 500, "error dialing backend: dial tcp 127.0.0.1:1: connect: connection refused"},
	} {
		r := w.request("POST", logPath+c.path, "")
		client := &http.Transport{TLSClientConfig: w.server.Client().Transport.(*http.Transport).TLSClientConfig, DisableKeepAlives: true}
		if c.upgrade != "" {
			r.Header.Set("Connection", "Upgrade")
			r.Header.Set("Upgrade", c.upgrade)
		}
		answer, err := client.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != c.code || !strings.Contains(string(body), c.want) {
			t.Errorf("%s: %d %s", c.path, answer.StatusCode, body)
		}
	}
}

func TestAdmissionMayRefuseToConnect(t *testing.T) {
	var asked []string
	refuse := registry.Admission{Name: "refuse", Validate: func(_ context.Context, c *registry.Change) error {
		if c.Operation != registry.Connect {
			return nil
		}
		asked = append(asked, c.Kind.Resource+"/"+c.View+" "+c.Namespace+"/"+c.Name)
		return apierrors.NewForbidden(c.Kind.GroupResource(), c.Name, errors.New("not here"))
	}}
	w := newWorld(t, http.NotFoundHandler(), Options{Registry: &registry.Registry{Admission: []registry.Admission{refuse}}})
	for _, path := range []string{logPath + "pod/exec", logPath + "pod/attach", logPath + "pod/portforward", logPath + "pod/proxy/", "/api/v1/nodes/node/proxy/"} {
		if code, body, _ := w.do(w.request("GET", path, "")); code != http.StatusForbidden || !strings.Contains(body, "not here") {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if got := strings.Join(asked, ", "); got != "pods/exec default/pod, pods/attach default/pod, pods/portforward default/pod, pods/proxy default/pod, nodes/proxy /node" {
		t.Errorf("asked about %s", got)
	}
}
