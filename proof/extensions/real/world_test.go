//go:build unix

package real_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/millracetest"
	"github.com/millrace/millrace/proof/internal/kubectl"
)

// bound only makes a failure end.
const bound = 2 * time.Minute

// world is a cluster, and clients of its administrator.
type world struct {
	*testing.T
	cluster    *millrace.Cluster
	kube       *kubernetes.Clientset
	services   *aggregator.Clientset // of APIServices
	objects    *dynamic.DynamicClient
	directory  string
	kubeconfig string
}

func newWorld(t *testing.T, o millrace.Options) *world {
	w := &world{T: t, cluster: millracetest.Start(t, o), directory: t.TempDir()}
	w.kube = millracetest.Clientset(t, w.cluster)
	w.services = aggregator.NewForConfigOrDie(w.cluster.Config())
	w.objects = dynamic.NewForConfigOrDie(w.cluster.Config())
	w.kubeconfig = w.file("kubeconfig", string(w.cluster.Kubeconfig()))
	return w
}

// within returns the same world for a part of the test.
func (w *world) within(t *testing.T) *world {
	part := *w
	part.T = t
	return &part
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// file writes a file, and returns its path.
func (w *world) file(name, text string) string {
	w.Helper()
	path := filepath.Join(w.directory, name)
	w.must(os.WriteFile(path, []byte(text), 0o600))
	return path
}

// kubectl runs a command as the administrator, and returns what it wrote, and whether it succeeded.
func (w *world) kubectl(args ...string) (out, messages string, ok bool) {
	w.Helper()
	var stdout, stderr bytes.Buffer
	e := kubectl.Run(w.kubeconfig, &stdout, &stderr, args...)
	return stdout.String(), stderr.String() + e.Message, e.Code == 0
}

// apply applies a manifest of testdata, in which words were replaced.
func (w *world) apply(name string, words ...string) {
	w.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	w.must(err)
	path := w.file(name, strings.NewReplacer(words...).Replace(string(text)))
	if out, messages, ok := w.kubectl("apply", "-f", path); !ok {
		w.Fatalf("kubectl apply: %s%s", out, messages)
	}
}

// account returns the path of a kubeconfig for a service account, as pods have.
func (w *world) account(namespace, name string) string {
	w.Helper()
	token, err := w.kube.CoreV1().ServiceAccounts(namespace).CreateToken(w.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	w.must(err)
	admin := w.cluster.Config()
	config := clientcmdapi.NewConfig()
	config.Clusters["it"] = &clientcmdapi.Cluster{Server: admin.Host, CertificateAuthorityData: admin.CAData}
	config.AuthInfos["it"] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts["it"] = &clientcmdapi.Context{Cluster: "it", AuthInfo: "it"}
	config.CurrentContext = "it"
	text, err := clientcmd.Write(*config)
	w.must(err)
	return w.file(name+".kubeconfig", string(text))
}

// user returns a configuration for an ordinary user, with a client certificate.
func (w *world) user(name string, groups ...string) *rest.Config {
	w.Helper()
	config, err := w.cluster.User(name, groups...)
	w.must(err)
	return config
}

// eventually repeats a check until it returns nil.
func (w *world) eventually(what string, check func() error) {
	w.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	late := time.NewTimer(bound)
	defer late.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-late.C:
			w.Fatalf("%s: %v", what, err)
		case <-w.Context().Done():
			w.Fatalf("%s: %v, when the test ended", what, err)
		}
	}
}

// contains is an error if a text lacks one of the words.
func contains(text string, words ...string) error {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return fmt.Errorf("there is no %q in %s", word, text)
		}
	}
	return nil
}
