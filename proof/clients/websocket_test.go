package clients_test

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace"
)

// dial opens a WebSocket as the administrator.
func dial(t *testing.T, config *rest.Config, path string, header http.Header) (*websocket.Conn, *http.Response, error) {
	t.Helper()
	tlsConfig := must(rest.TLSConfigFor(config))(t)
	d := websocket.Dialer{TLSClientConfig: &tls.Config{RootCAs: tlsConfig.RootCAs, Certificates: tlsConfig.Certificates}, HandshakeTimeout: 10 * time.Second}
	if tlsConfig.GetClientCertificate != nil {
		d.TLSClientConfig.GetClientCertificate = tlsConfig.GetClientCertificate
	}
	return d.DialContext(t.Context(), strings.Replace(config.Host, "https", "wss", 1)+path, header)
}

func TestEventsComeOverAWebSocketOneMessageEach(t *testing.T) {
	c := start(t, millrace.Options{})
	maps := clientset(t, c.Config()).CoreV1().ConfigMaps("default")
	must(maps.Create(t.Context(), configMap("a", map[string]string{"l": "1"}), metav1.CreateOptions{}))(t)
	for _, path := range []string{"/api/v1/namespaces/default/configmaps?watch=true&labelSelector=l%3D1", "/api/v1/watch/namespaces/default/configmaps?labelSelector=l%3D1"} {
		conn, _, err := dial(t, c.Config(), path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for i := range 3 {
			kind, text, err := conn.ReadMessage()
			if err != nil || kind != websocket.TextMessage {
				t.Fatalf("message of kind %d: %v", kind, err)
			}
			var e struct {
				Type   string
				Object corev1.ConfigMap
			}
			if err := json.Unmarshal(text, &e); err != nil {
				t.Fatal(err)
			}
			if want := []string{"ADDED", "MODIFIED", "MODIFIED"}[i]; e.Type != want || e.Object.Name != "a" || e.Object.Kind != "ConfigMap" {
				t.Errorf("event %d: %s of %s %s", i, e.Type, e.Object.Kind, e.Object.Name)
			}
			o := must(maps.Get(t.Context(), "a", metav1.GetOptions{}))(t)
			o.Data["k"] = fmt.Sprint(path, i)
			must(maps.Update(t.Context(), o, metav1.UpdateOptions{}))(t)
		}
	}
}

func TestBrowsersHandOverTheirTokenAsAProtocol(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("good,root,1,system:masters\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	config := start(t, millrace.Options{TokenFile: tokens}).Config()
	config.CertData, config.KeyData = nil, nil
	for token, want := range map[string]int{"good": http.StatusSwitchingProtocols, "bad": http.StatusUnauthorized} {
		protocols := "base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte(token)) + ", plain"
		conn, res, err := dial(t, config, "/api/v1/pods?watch=true", http.Header{"Sec-WebSocket-Protocol": {protocols}})
		if err == nil {
			conn.Close()
		}
		if res == nil || res.StatusCode != want || want == http.StatusSwitchingProtocols && conn.Subprotocol() != "plain" {
			t.Errorf("%s: %v %v", token, res, err)
		}
	}
}

func TestAWebSocketThatTimesOutSaysFarewell(t *testing.T) {
	c := start(t, millrace.Options{})
	conn, _, err := dial(t, c.Config(), "/api/v1/configmaps?watch=true&timeoutSeconds=1&resourceVersion=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for err == nil {
		_, _, err = conn.ReadMessage()
	}
	if !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
		t.Error(err)
	}
}

func TestWebSocketsAreRefusedAsRequestsAre(t *testing.T) {
	c := start(t, millrace.Options{})
	anonymous := c.Config()
	anonymous.CertData, anonymous.KeyData = nil, nil
	for _, x := range []struct {
		config *rest.Config
		path   string
		header http.Header
		want   int
	}{
		{anonymous, "/api/v1/pods?watch=true", nil, http.StatusForbidden},
		{anonymous, "/api/v1/pods?watch=true", http.Header{"Authorization": {"Bearer no"}}, http.StatusUnauthorized},
		{c.Config(), "/api/v1/pods?watch=true&labelSelector=%28", nil, http.StatusBadRequest},
		{c.Config(), "/api/v1/pods?watch=true", http.Header{"Origin": {"https://elsewhere.example.com"}}, http.StatusForbidden},
		{c.Config(), "/api/v1/nothings?watch=true", nil, http.StatusNotFound},
	} {
		conn, res, err := dial(t, x.config, x.path, x.header)
		if err == nil {
			conn.Close()
			t.Errorf("%s %v: was opened", x.path, x.header)
		} else if res == nil || res.StatusCode != x.want {
			t.Errorf("%s %v: %v %v", x.path, x.header, res, err)
		}
	}
}

func TestClosingEndsWebSocketsToo(t *testing.T) {
	c, err := millrace.Start(t.Context(), millrace.Options{Controllers: []string{}, NoScheduler: true})
	if err != nil {
		t.Fatal(err)
	}
	conn, _, err := dial(t, c.Config(), "/api/v1/pods?watch=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := conn.ReadMessage(); err == nil {
		t.Error("the socket is open")
	}
}
