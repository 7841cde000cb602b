package data

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/server/pki"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/etcd"
	"github.com/millrace/millrace/internal/server/store/etcd/etcdtest"
)

func TestWhatAServerHasLeftInAnEtcdClusterIsListedAndRemoved(t *testing.T) {
	server, keys := etcdtest.Start(t, etcdtest.Options{}).URL, t.TempDir()
	foreign, err := pki.Open(t.TempDir(), nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	o := millrace.Options{Keys: keys, Etcd: millrace.EtcdOptions{Servers: []string{server}}, Listen: "127.0.0.1:0", Controllers: []string{}, NoScheduler: true}
	cluster := func(do func(*kubernetes.Clientset)) {
		t.Helper()
		c, err := millrace.Start(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		k, err := kubernetes.NewForConfig(c.Config())
		if err != nil {
			t.Fatal(err)
		}
		do(k)
	}
	cluster(func(k *kubernetes.Clientset) {
		m, err := k.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		m.Data["requestheader-client-ca-file"] += string(foreign.ProxyAuthority.CertPEM)
		if _, err := k.CoreV1().ConfigMaps("kube-system").Update(t.Context(), m, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	})
	clean := func(args ...string) string {
		t.Helper()
		c := Command()
		c.SetIn(strings.NewReader("no\n"))
		out, err := run(t, c, append([]string{"clean-up", "--etcd-servers", server, "--keys", keys}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	listed := clean()
	if n := strings.Count(listed, "/registry/"); n != 18 || !strings.Contains(listed, "/registry/clusterroles/millrace:network\n") || !strings.Contains(listed, "Nothing was removed.") {
		t.Errorf("%d objects are listed:\n%s", n, listed)
	}
	if again := clean("--yes"); strings.Count(again, "/registry/") != 18 {
		t.Errorf("a list removes:\n%s", again)
	}
	if out := clean("--yes"); out != "Millrace has left nothing here.\n" {
		t.Errorf("after that there is\n%s", out)
	}
	s, err := etcd.Dial(t.Context(), etcd.Options{Endpoints: []string{server}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	e, err := s.Get(t.Context(), "/registry/configmaps/kube-system/extension-apiserver-authentication", store.GetOptions{})
	if err != nil || !strings.Contains(string(e.Value), string(foreign.ProxyAuthority.CertPEM)) {
		t.Errorf("somebody else's certificate is removed: %v", err)
	}
}
