package millrace_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/server/pki"
)

// given makes the files that kubeadm would give.
func given(t *testing.T) (directory string, keys *pki.Keys) {
	t.Helper()
	directory = t.TempDir()
	keys, err := pki.Open(directory, []string{"127.0.0.1"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return directory, keys
}

func TestAServerWhoseCertificatesAreGivenHasNoOtherRootOfTrust(t *testing.T) {
	files, keys := given(t)
	file := func(name string) string { return filepath.Join(files, name) }
	o := millrace.Options{Data: t.TempDir(), Listen: freeAddress(t), Controllers: []string{}, NoScheduler: true}
	o.Serving = millrace.ServingOptions{
		OnlyGiven: true, CertFile: file("apiserver.crt"), KeyFile: file("apiserver.key"), ClientCAFile: file("ca.crt"),
		Tokens: millrace.TokenOptions{SigningKeyFile: file("sa.key")},
	}
	o.Authentication.ProxyCAFile, o.Authentication.Proxy.Names = file("front-proxy-ca.crt"), []string{"front-proxy-client"}
	c := start(t, o)

	if _, err := os.Stat(filepath.Join(o.Data, "pki")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("keys are stored: %v", err)
	}
	kube := clientset(t, c)
	published, err := kube.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"client-ca-file": string(keys.Authority.CertPEM), "requestheader-client-ca-file": string(keys.ProxyAuthority.CertPEM),
		"requestheader-allowed-names": `["front-proxy-client"]`,
	} {
		if got := published.Data[key]; got != want {
			t.Errorf("%s is published as\n%s\nwant\n%s", key, got, want)
		}
	}
	if info, err := kube.CoreV1().ConfigMaps("kube-public").Get(t.Context(), "cluster-info", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("cluster-info is published: %v, %v", info, err)
	}

	config, err := clientcmd.RESTConfigFromKubeConfig(c.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config.CAData = keys.Authority.CertPEM
	own, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := own.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("a certificate that the cluster has signed itself is accepted")
	}
	config.CertData, config.KeyData = keys.Admin.CertPEM, keys.Admin.KeyPEM
	admin, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("a certificate of the given authority is refused: %v", err)
	}
}

func TestAServerWithoutKeysOfItsOwnNeedsAllThatIsGiven(t *testing.T) {
	o := millrace.Options{Controllers: []string{}, NoScheduler: true, Serving: millrace.ServingOptions{OnlyGiven: true}}
	if c, err := millrace.Start(t.Context(), o); err == nil {
		c.Close()
		t.Error("it is started")
	}
}
