package plane

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/millrace/millrace"
)

// commands runs `millrace plane` with a kubeconfig.
type commands struct {
	t          *testing.T
	kubeconfig string
}

func (c *commands) try(args ...string) (string, error) {
	var out bytes.Buffer
	command := Command()
	command.SetArgs(append(args, "--kubeconfig", c.kubeconfig))
	command.SetOut(&out)
	command.SetErr(&out)
	command.SilenceUsage, command.SilenceErrors = true, true
	err := command.ExecuteContext(c.t.Context())
	return out.String(), err
}

func (c *commands) must(args ...string) string {
	c.t.Helper()
	out, err := c.try(args...)
	if err != nil {
		c.t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return out
}

func startHost(t *testing.T, planes bool) *commands {
	t.Helper()
	c, err := millrace.Start(t.Context(), millrace.Options{
		Data: t.TempDir(), Planes: planes, NoScheduler: true, Controllers: []string{}, History: millrace.HistoryOptions{Age: time.Hour, Bytes: 1 << 30},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := c.WriteKubeconfig(path); err != nil {
		t.Fatal(err)
	}
	return &commands{t, path}
}

func TestALifeOfPlanes(t *testing.T) {
	c := startHost(t, true)
	if out := c.must("list"); !strings.Contains(out, "There are no control planes") {
		t.Errorf("nothing to list: %s", out)
	}
	path := filepath.Join(t.TempDir(), "prod.yaml")
	c.must("create", "prod", "--nodes", "0", "--paused", "--write-kubeconfig", path)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the kubeconfig: %v, %v", info, err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	maps := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default")
	if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.must("fork", "prod", "try", "--paused", "--nodes", "0")
	if out := c.must("diff", "prod", "try"); out != "They have the same objects.\n" {
		t.Errorf("a fork differs: %s", out)
	}
	if err := maps.Delete(t.Context(), "new", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if out := c.must("diff", "prod", "try"); out != "+ default configmaps/new\n" {
		t.Errorf("the difference is %s", out)
	}
	c.must("sleep", "prod", "try")
	if out := c.must("list"); strings.Count(out, "Asleep") != 2 {
		t.Errorf("both sleep: %s", out)
	}
	c.must("wake", "prod")
	c.must("delete", "prod", "try")
	for _, args := range [][]string{{"wake", "prod"}, {"sleep", "prod"}, {"delete", "prod"}, {"kubeconfig", "prod"}, {"diff", "prod", "try"}} {
		if out, err := c.try(args...); err == nil || !strings.Contains(err.Error(), `there is no control plane "prod"`) {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
}

func TestAHostWithoutPlanesSaysSo(t *testing.T) {
	c := startHost(t, false)
	for _, args := range [][]string{{"list"}, {"create", "dev"}, {"delete", "dev"}} {
		if out, err := c.try(args...); err == nil || !strings.Contains(err.Error(), "start it with --planes") {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
}
