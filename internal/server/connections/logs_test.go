package connections

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const logPath = "/api/v1/namespaces/default/pods/"

func TestLogsComeFromThePodsKubelet(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s by %s", r.Method, r.URL, r.TLS.PeerCertificates[0].Subject.CommonName)
	}), Options{})
	tail := int64(3)
	text, err := w.clientset().CoreV1().Pods("default").GetLogs("pod", &corev1.PodLogOptions{TailLines: &tail, Timestamps: true}).DoRaw(t.Context())
	if want := "GET /containerLogs/default/pod/main?tailLines=3&timestamps=true by kube-apiserver-kubelet-client"; err != nil || string(text) != want {
		t.Errorf("got %q, %v, want %q", text, err, want)
	}
}

func TestAFollowedLogIsSentLineByLineUntilTheClientDisconnects(t *testing.T) {
	left, more := make(chan struct{}), make(chan string)
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(left)
		w.(http.Flusher).Flush()
		for {
			select {
			case line := <-more:
				fmt.Fprintln(w, line)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}), Options{})
	stream, err := w.clientset().CoreV1().Pods("default").GetLogs("pod", &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stream)
	for _, line := range []string{"one", "two"} {
		more <- line
		if got, err := lines.ReadString('\n'); err != nil || got != line+"\n" {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	stream.Close()
	<-left
}

func TestTheEndOfTheServerEndsLogs(t *testing.T) {
	left := make(chan struct{})
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(left)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}), Options{})
	stream, err := w.clientset().CoreV1().Pods("default").GetLogs("pod", &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	w.Close()
	<-left
	if n, err := stream.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("read %d bytes, %v", n, err)
	}
	if code, body, _ := w.do(w.request("GET", logPath+"pod/log", "")); code != http.StatusServiceUnavailable {
		t.Errorf("afterwards: %d %s", code, body)
	}
}

func TestInvalidLogOptionsAreRefused(t *testing.T) {
	w := newWorld(t, http.NotFoundHandler(), Options{})
	w.create(podWith("two", "node", "a", "b"), "", "pods")
	initial := podWith("three", "node", "a", "b")
	initial.Spec.InitContainers = podWith("", "", "first").Spec.Containers
	w.create(initial, "", "pods")
	w.create(podWith("waiting", "", "main"), "", "pods")
	w.create(podWith("lost", "missing", "main"), "", "pods")
	w.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "silent"}}, "", "nodes")
	w.create(podWith("homeless", "silent", "main"), "", "pods")
	for _, c := range []struct {
		path string
		code int
		want string
	}{
		{"two/log", 400, `a container name must be specified for pod two, choose one of: [a b]"`},
		{"three/log", 400, `a container name must be specified for pod three, choose one of: [a b] or one of the init containers: [first]`},
		{"two/log?container=c", 400, `container c is not valid for pod two`},
		{"none/log", 404, `pods \"none\" not found`},
		{"waiting/log", 204, ""},
		{"lost/log", 404, `nodes \"missing\" not found`},
		{"homeless/log", 500, `no preferred addresses found; known addresses: []`},
		{"pod/log", 404, `the server could not find the requested resource ( pods/log pod)`},
		{"pod/log?tailLines=x", 400, `strconv.ParseInt: parsing \"x\": invalid syntax`},
		{"pod/log?tailLines=-1", 422, `PodLogOptions \"pod\" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0`},
		{"pod/log?limitBytes=0", 422, `limitBytes: Invalid value: 0: must be greater than 0`},
		{"pod/log?sinceSeconds=0", 422, `sinceSeconds: Invalid value: 0: must be greater than 0`},
		{"pod/log?sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z", 422, "at most one of `sinceTime` or `sinceSeconds` may be specified"},
		{"pod/log?sinceTime=yesterday", 400, `parsing time`},
		{"pod/log?stream=Other", 422, `stream: Unsupported value: \"Other\"`},
		{"pod/log?stream=Stdout&tailLines=1", 422, "mutually exclusive for now"},
	} {
		code, body, _ := w.do(w.request("GET", logPath+c.path, ""))
		if code != c.code || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %s", c.path, code, body)
		}
	}
	if code, body, _ := w.do(w.request("POST", logPath+"pod/log", "")); code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d %s", code, body)
	}
	if code, body, _ := w.do(w.request("GET", "/api/v1/pods/pod/log", "")); code != http.StatusNotFound {
		t.Errorf("without a namespace: %d %s", code, body)
	}
}

func TestAnUnreachableKubeletIsNamedInTheError(t *testing.T) {
	w := newWorld(t, http.NotFoundHandler(), Options{})
	w.create(nodeAt("away", "127.0.0.1:1"), "", "nodes")
	w.create(podWith("gone", "away", "main"), "", "pods")
	for path, want := range map[string]string{
		"gone/log": `"message":"Get \"https://127.0.0.1:1/containerLogs/default/gone/main\": dial tcp 127.0.0.1:1: connect: connection refused","code":500`,
	} {
		if _, body, _ := w.do(w.request("GET", logPath+path, "")); !strings.Contains(body, want) {
			t.Errorf("%s: %s", path, body)
		}
	}
	code, body, _ := w.do(w.request("GET", "/api/v1/nodes/away/proxy/healthz", ""))
	if want := "error trying to reach service: dial tcp 127.0.0.1:1: connect: connection refused"; code != 503 || !strings.Contains(body, want) {
		t.Errorf("proxy: %d %s", code, body)
	}
}

func TestLogsAreSentOverWebSockets(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "one")
		w.(http.Flusher).Flush()
		fmt.Fprintln(w, "two")
	}), Options{})
	for protocol, kind := range map[string]int{"binary.k8s.io": websocket.BinaryMessage, "base64.binary.k8s.io": websocket.TextMessage, "": websocket.BinaryMessage} {
		d := websocket.Dialer{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		if protocol != "" {
			d.Subprotocols = []string{protocol}
		}
		conn, answer, err := d.Dial("wss"+strings.TrimPrefix(w.server.URL, "https")+logPath+"pod/log?container=main", nil)
		if err != nil {
			t.Fatalf("%q: %v", protocol, err)
		}
		if got := answer.Header.Get("Sec-Websocket-Protocol"); got != protocol {
			t.Errorf("%q is spoken for %q", got, protocol)
		}
		var text []byte
		for {
			got, message, err := conn.ReadMessage()
			if websocket.IsCloseError(err, websocket.CloseNormalClosure) {
				break
			}
			if err != nil || got != kind {
				t.Fatalf("%q: a message of type %d, %v", protocol, got, err)
			}
			if kind == websocket.TextMessage {
				message, _ = base64.StdEncoding.DecodeString(string(message))
			}
			text = append(text, message...)
		}
		if string(text) != "one\ntwo\n" {
			t.Errorf("%q: %q", protocol, text)
		}
		conn.Close()
	}
}
