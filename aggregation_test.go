package millrace_test

import (
	"bytes"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/server/pki"
)

func TestAggregatedServersAreCalledWithTheCertificateOfAFileAndToldToTrustIt(t *testing.T) {
	keys, err := pki.Open("", nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	client, err := pki.IssueClient(&keys.ProxyAuthority, "given-proxy", nil, time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(t.TempDir(), name) }
	o := millrace.Options{Controllers: []string{}, NoScheduler: true}
	o.Serving.Proxy = millrace.ProxyOptions{CertFile: in("proxy.crt"), KeyFile: in("proxy.key")}
	o.Authentication.ProxyCAFile = in("ca.crt")
	for path, text := range map[string][]byte{
		o.Serving.Proxy.CertFile: client.CertPEM, o.Serving.Proxy.KeyFile: client.KeyPEM, o.Authentication.ProxyCAFile: keys.ProxyAuthority.CertPEM,
	} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	callers := make(chan string, 100)
	addAggregated(t, start(t, o), callers)
	if got := <-callers; got != "given-proxy" {
		t.Errorf("%s calls", got)
	}
}

func TestServersAreToldOfAllWhomThisServerTrusts(t *testing.T) {
	keys, err := pki.Open("", nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	expired, err := pki.Open("", nil, time.Now().AddDate(-20, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string, texts ...[]byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, bytes.Join(texts, nil), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	o := millrace.Options{Controllers: []string{}, NoScheduler: true}
	o.Serving.ClientCAFile = in("clients.crt", keys.Authority.CertPEM, expired.Authority.CertPEM)
	o.Authentication.ProxyCAFile = in("proxies.crt", keys.ProxyAuthority.CertPEM)
	o.Authentication.Proxy = millrace.FrontProxyOptions{Names: []string{"edge"}, UserHeaders: []string{"x-remote-user", "X-Edge-User"}, GroupHeaders: []string{"X-Edge-Group"}}
	trust, err := clientset(t, start(t, o)).CoreV1().ConfigMaps("kube-system").Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for key, pair := range map[string]*pki.Pair{"client-ca-file": &keys.Authority, "requestheader-client-ca-file": &keys.ProxyAuthority} {
		if bundle := trust.Data[key]; strings.Count(bundle, "BEGIN CERTIFICATE") != 2 || !strings.Contains(bundle, string(pair.CertPEM)) {
			t.Errorf("%s is %s", key, bundle)
		}
	}
	for key, want := range map[string]string{
		"requestheader-allowed-names": `["front-proxy-client","edge"]`, "requestheader-username-headers": `["X-Remote-User","X-Edge-User"]`,
		"requestheader-group-headers": `["X-Remote-Group","X-Edge-Group"]`, "requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`, "requestheader-uid-headers": `["X-Remote-Uid"]`,
	} {
		if trust.Data[key] != want {
			t.Errorf("%s is %s", key, trust.Data[key])
		}
	}
}

// addAggregated adds an aggregated server, which says who calls it, and checks what the config map tells it.
func addAggregated(t *testing.T, c *millrace.Cluster, callers chan<- string) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case callers <- r.TLS.PeerCertificates[0].Subject.CommonName:
		default:
		}
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	k := clientset(t, c)
	trust, err := k.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
	if err != nil || trust.Data["requestheader-allowed-names"] != `["front-proxy-client","given-proxy"]` || strings.Count(trust.Data["requestheader-client-ca-file"], "BEGIN CERTIFICATE") != 2 {
		t.Errorf("servers are told %v, %v", trust.Data, err)
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "example"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}}
	if _, err := k.CoreV1().Services("default").Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	body := `{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.wardle.example"},"spec":{"group":"wardle.example","version":"v1",` +
		`"groupPriorityMinimum":2000,"versionPriority":10,"insecureSkipTLSVerify":true,"service":{"namespace":"default","name":"example","port":` + port + `}}}`
	if err := k.RESTClient().Post().AbsPath("/apis/apiregistration.k8s.io/v1/apiservices").SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
}
