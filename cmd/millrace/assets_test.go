package main

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/cmd/millrace/internal/apiserver"
	"github.com/millrace/millrace/cmd/millrace/internal/assets"
	"github.com/millrace/millrace/cmd/millrace/internal/starting"
	"github.com/millrace/millrace/internal/server/pki"
)

// TestMain makes the test binary act as the assets when it is called by their names, and as this program when it is
// called by its.
func TestMain(m *testing.M) {
	starting.Done()
	name := filepath.Base(os.Args[0])
	if programFor(name) != nil || name == "millrace" {
		main()
		return
	}
	os.Exit(m.Run())
}

// asset runs an asset until the test ends. stop stops it in order and returns its error.
func asset(t *testing.T, directory, name string, args ...string) (stop func() error) {
	t.Helper()
	c := exec.Command(filepath.Join(directory, name), args...)
	c.Stdout, c.Stderr = t.Output(), t.Output()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	t.Cleanup(func() {
		if !ended {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	})
	return func() error {
		ended = true
		if err := c.Process.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		return c.Wait()
	}
}

func freeAddress(t *testing.T) (address, port string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return l.Addr().String(), port
}

// ready waits until a URL answers 200, as envtest does.
func ready(t *testing.T, url string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if res, err := client.Get(url); err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s is never answered", url)
		}
	}
}

// Does what controller-runtime's envtest does: its own certificates, flags and health checks, a client certificate, and
// SIGTERM.
func TestADirectoryOfAssetsServesATestSuite(t *testing.T) {
	directory, certs := filepath.Join(t.TempDir(), "assets"), t.TempDir()
	if err := assets.MakeAssets(directory); err != nil {
		t.Fatal(err)
	}
	if err := assets.MakeAssets(directory); err != nil {
		t.Fatalf("a second time: %v", err)
	}
	serving, clients, tokens := openKeys(t), openKeys(t), openKeys(t)
	for name, text := range map[string][]byte{"apiserver.crt": serving.Serving.CertPEM, "apiserver.key": serving.Serving.KeyPEM,
		"client-cert-auth-ca.crt": clients.Authority.CertPEM, "sa-signer.crt": tokens.Authority.CertPEM, "sa-signer.key": tokens.Authority.KeyPEM} {
		if err := os.WriteFile(filepath.Join(certs, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	etcdAddress, _ := freeAddress(t)
	address, port := freeAddress(t)
	etcdURL := "http://" + etcdAddress
	flags := []string{"--service-cluster-ip-range=10.0.0.0/24", "--allow-privileged=true", "--disable-admission-plugins=ServiceAccount", "--cert-dir=" + certs,
		"--authorization-mode=RBAC", "--secure-port=" + port, "--bind-address=127.0.0.1", "--service-account-issuer=https://" + address + "/",
		"--service-account-key-file=" + filepath.Join(certs, "sa-signer.crt"), "--service-account-signing-key-file=" + filepath.Join(certs, "sa-signer.key"),
		"--etcd-servers=" + etcdURL, "--client-ca-file=" + filepath.Join(certs, "client-cert-auth-ca.crt")}

	stopEtcd := asset(t, directory, "etcd", "--listen-client-urls="+etcdURL, "--advertise-client-urls="+etcdURL, "--listen-peer-urls=http://localhost:0",
		"--data-dir="+t.TempDir(), "--unsafe-no-fsync=true")
	ready(t, etcdURL+"/health")
	stopServer := asset(t, directory, "kube-apiserver", flags...)
	ready(t, "https://"+address+"/healthz")

	kube := kubernetes.NewForConfigOrDie(&rest.Config{Host: "https://" + address, TLSClientConfig: rest.TLSClientConfig{
		CAData: serving.Authority.CertPEM, CertData: clients.Admin.CertPEM, KeyData: clients.Admin.KeyPEM}})
	if _, err := kube.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if out, err := exec.Command(filepath.Join(directory, "kube-apiserver"), flags...).CombinedOutput(); err == nil || !strings.Contains(string(out), "another API server uses it") {
		t.Errorf("a second API server beside one stand-in: %v, %s", err, out)
	}
	if err := stopServer(); err != nil {
		t.Errorf("kube-apiserver ends with %v", err)
	}
	if err := stopEtcd(); err != nil {
		t.Errorf("etcd ends with %v", err)
	}
}

func openKeys(t *testing.T) *pki.Keys {
	t.Helper()
	k, err := pki.Open("", []string{"127.0.0.1"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// envtest looks for flags in the help text.
func TestTheHelpOfAssetsListsTheFlags(t *testing.T) {
	for name, c := range map[string]struct{ has, hasNot string }{
		"etcd": {"\n      --unsafe-no-fsync", ""}, "kube-apiserver": {"\n      --secure-port", "--insecure-port"},
	} {
		help := commandFor("/some/directory/"+name, nil).UsageString()
		if !strings.Contains(help, c.has) || c.hasNot != "" && strings.Contains(help, c.hasNot) {
			t.Errorf("%s: %s", name, help)
		}
	}
	if got := commandFor("/some/directory/kubectl", nil).Name(); got != "kubectl" {
		t.Errorf("kubectl is %s", got)
	}
	if got := commandFor("/some/directory/millrace", nil).Name(); got != "millrace" {
		t.Errorf("millrace is %s", got)
	}
}

func TestKubectlIsMadeOnlyIfItMayBeCalled(t *testing.T) {
	for args, want := range map[string]bool{
		"": true, "kubectl get pods": true, "help": true, "help kubectl": true, "--help": true, "completion bash": true, "__complete kube": true, "kubctl": true,
		"dns": false, "dns --help": false, "up --nodes 3": false, "token create": false,
	} {
		c := commandFor("millrace", strings.Fields(args))
		if got := slices.ContainsFunc(c.Commands(), func(c *cobra.Command) bool { return c.Name() == "kubectl" }); got != want {
			t.Errorf("millrace %s has kubectl: %v", args, got)
		}
	}
}

func TestAServingCertificateOfAnotherCAIsServedAsItIs(t *testing.T) {
	directory := t.TempDir()
	f := &apiserver.Flags{CertDir: directory}
	f.Data, f.ServiceRange, f.BindAddress, f.Port, f.Prefix = "memory", "10.0.0.0/24", "127.0.0.1", 0, apiserver.RegistryPrefix
	f.MaxRequests, f.MaxChanges, f.MinRequestTimeout, f.RequestTimeout = 1, 1, 1, time.Second
	k := openKeys(t)
	for step, want := range []string{directory, "", directory} {
		switch step {
		case 1: // files that envtest puts there
			for name, text := range map[string][]byte{"apiserver.crt": k.Serving.CertPEM, "apiserver.key": k.Serving.KeyPEM} {
				if err := os.WriteFile(filepath.Join(directory, name), text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		case 2: // files that this program puts there
			if err := os.WriteFile(filepath.Join(directory, "ca.key"), k.Authority.KeyPEM, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		o, err := f.Options(nil)
		if err != nil {
			t.Fatal(err)
		}
		if o.Keys != want || (o.Serving.CertFile != "") != (want == "") {
			t.Errorf("step %d: keys in %q, certificate %q", step, o.Keys, o.Serving.CertFile)
		}
	}
}
