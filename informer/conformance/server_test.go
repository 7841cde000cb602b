package conformance

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// onKubeAPIServer runs a test against a kube-apiserver, where KUBEBUILDER_ASSETS names a directory with one and etcd.
// Without flags the server has its defaults.
func onKubeAPIServer(t *testing.T, test func(t *testing.T, config *rest.Config), flags ...string) {
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		t.Skip("KUBEBUILDER_ASSETS is not set")
	}
	test(t, startKubeAPIServer(t, assets, flags))
}

func startKubeAPIServer(t *testing.T, assets string, flags []string) *rest.Config {
	t.Helper()
	directory := t.TempDir()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	content := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	writeFile(t, directory, "sa.key", content)
	writeFile(t, directory, "tokens", []byte("let-me-in,admin,1,system:masters\n"))
	store, peers, secure := freePort(t), freePort(t), freePort(t)
	runProgram(t, filepath.Join(assets, "etcd"), "--data-dir", filepath.Join(directory, "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls", "http://"+store, "--advertise-client-urls", "http://"+store,
		"--listen-peer-urls", "http://"+peers, "--initial-advertise-peer-urls", "http://"+peers, "--initial-cluster", "default=http://"+peers)
	_, port, _ := net.SplitHostPort(secure)
	runProgram(t, filepath.Join(assets, "kube-apiserver"), append(flags, "--etcd-servers", "http://"+store, "--bind-address", "127.0.0.1", "--secure-port", port,
		"--cert-dir", directory, "--token-auth-file", filepath.Join(directory, "tokens"), "--service-account-issuer", "https://kubernetes.default.svc",
		"--service-account-key-file", filepath.Join(directory, "sa.key"), "--service-account-signing-key-file", filepath.Join(directory, "sa.key"),
		"--service-cluster-ip-range", "10.0.0.0/24", "--disable-admission-plugins", "ServiceAccount")...)
	config := &rest.Config{Host: "https://" + secure, BearerToken: "let-me-in", TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	client := kubernetes.NewForConfigOrDie(config)
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		if _, err = client.RESTClient().Get().AbsPath("/readyz").DoRaw(t.Context()); err == nil {
			return config
		}
		if time.Now().After(deadline) {
			t.Fatalf("kube-apiserver is not ready: %v", err)
		}
	}
}

func writeFile(t *testing.T, directory, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(directory, name), content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// runProgram starts a program that ends with the test.
func runProgram(t *testing.T, path string, args ...string) {
	t.Helper()
	command := exec.Command(path, args...)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
}

// cutter makes connections that a test can cut.
type cutter struct {
	mu   sync.Mutex
	open []net.Conn // guarded by mu
}

func (c *cutter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		c.mu.Lock()
		c.open = append(c.open, conn)
		c.mu.Unlock()
	}
	return conn, err
}

func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.open {
		_ = conn.Close()
	}
	c.open = nil
}

// eventually repeats a check until it holds: the server is another process.
func eventually(t *testing.T, what string, holds func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if err = holds(); err == nil {
			return
		}
	}
	t.Error(fmt.Errorf("%s: %w", what, err))
}
