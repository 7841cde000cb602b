package history

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/millrace/millrace"
)

// world is a cluster with a history, and the kubeconfig of its administrator.
type world struct {
	t          *testing.T
	kubeconfig string
	maps       typedcorev1.ConfigMapInterface
}

func newWorld(t *testing.T) *world {
	c, err := millrace.Start(t.Context(), millrace.Options{
		Data: t.TempDir(), Controllers: []string{}, NoScheduler: true, History: millrace.HistoryOptions{Age: time.Hour, Bytes: 1 << 30},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{t: t, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	if err := c.WriteKubeconfig(w.kubeconfig); err != nil {
		t.Fatal(err)
	}
	config := c.Config()
	config.UserAgent = "writer/1.0 (test)"
	w.maps = kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default")
	return w
}

// run runs a command, and returns what it printed.
func (w *world) run(c *cobra.Command, input string, args ...string) (string, error) {
	var out bytes.Buffer
	c.SetArgs(append([]string{"--kubeconfig", w.kubeconfig}, args...))
	c.SetIn(strings.NewReader(input))
	c.SetOut(&out)
	c.SetErr(&out)
	c.SilenceUsage, c.SilenceErrors = true, true
	err := c.ExecuteContext(w.t.Context())
	return out.String(), err
}

func (w *world) must(c *cobra.Command, input string, args ...string) string {
	w.t.Helper()
	out, err := w.run(c, input, args...)
	if err != nil {
		w.t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return out
}

// set sets the value of a config map, and returns the resource version.
func (w *world) set(name, value string) string {
	w.t.Helper()
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"key": value}}
	stored, err := w.maps.Update(w.t.Context(), m, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		stored, err = w.maps.Create(w.t.Context(), m, metav1.CreateOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return stored.ResourceVersion
}

func (w *world) value(name string) string {
	w.t.Helper()
	m, err := w.maps.Get(w.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "none"
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return m.Data["key"]
}

func TestTheHistoryOfAnObjectIsToldFromTheFirstVersionToTheLast(t *testing.T) {
	w := newWorld(t)
	first := w.set("settings", "1")
	second := w.set("settings", "2")
	if err := w.maps.Delete(t.Context(), "settings", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.set("settings", "3")
	out := w.must(Command(), "", "configmap/settings")
	order := []string{first + "  ", "writer/1.0 create", "created", second + "  ", "writer/1.0 update", `~ data.key: "1" → "2"`, "delete", "deleted", "create", "created"}
	rest := out
	for _, part := range order {
		_, after, ok := strings.Cut(rest, part)
		if !ok {
			t.Fatalf("%q is missing, or not in its place:\n%s", part, out)
		}
		rest = after
	}
	if out := w.must(Command(), "", "cm", "settings", "--limit", "3", "-o", "patch"); !strings.HasPrefix(out, `{"data":{"key":"2"},`) {
		t.Errorf("the patches are\n%s", out)
	}
	var v version
	lines := w.must(Command(), "", "cm/settings", "--limit", "1", "-o", "json")
	if err := json.Unmarshal([]byte(lines), &v); err != nil || v.Type != "ADDED" || v.User == "" || v.Object == nil {
		t.Errorf("the last version is %s, %v", lines, err)
	}
	if out, err := w.run(Command(), "", "cm/none"); err == nil || !strings.Contains(err.Error(), "nothing is kept of configmaps/none") {
		t.Errorf("of what never was: %q, %v", out, err)
	}
	for _, args := range [][]string{{"cm"}, {"cm/a", "b"}, {"nothing/a"}, {"cm/a", "-o", "xml"}, {"cm/a", "--limit", "0"}} {
		if out, err := w.run(Command(), "", args...); err == nil {
			t.Errorf("%v: %s", args, out)
		}
	}
}

func TestUndoShowsAsksAndMakesAnObjectWhatItWas(t *testing.T) {
	w := newWorld(t)
	w.set("other", "1")
	revision := w.set("settings", "1")
	w.set("settings", "2")
	out := w.must(UndoCommand(), "n\n", "cm/settings", "--to", revision)
	if !strings.Contains(out, `~ data.key: "2" → "1"`) || w.value("settings") != "2" {
		t.Errorf("after a no it is %s:\n%s", w.value("settings"), out)
	}
	if w.must(UndoCommand(), "yes\n", "cm/settings", "--to", revision); w.value("settings") != "1" {
		t.Errorf("after a yes it is %s", w.value("settings"))
	}
	if out := w.must(UndoCommand(), "", "cm/settings", "--to", revision); !strings.Contains(out, "is what it was") {
		t.Errorf("once more:\n%s", out)
	}
	if err := w.maps.Delete(t.Context(), "settings", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if w.must(UndoCommand(), "", "cm/settings", "--to", revision, "-y"); w.value("settings") != "1" {
		t.Errorf("what was deleted is %s", w.value("settings"))
	}
	w.set("later", "1")
	if w.must(UndoCommand(), "y\n", "cm/later", "--to", revision); w.value("later") != "none" {
		t.Errorf("what was not there is %s", w.value("later"))
	}
	for _, args := range [][]string{{"cm/settings"}, {"cm/never", "--to", revision}, {"cm/settings", "--to", "yesterday"}, {"cm/settings", "--to", "2h"}} {
		if out, err := w.run(UndoCommand(), "", args...); err == nil {
			t.Errorf("%v: %s", args, out)
		}
	}
}

func TestACommandRunsAgainstTheClusterAsItWas(t *testing.T) {
	w := newWorld(t)
	revision := w.set("settings", "1")
	w.set("settings", "2")
	file := filepath.Join(t.TempDir(), "used")
	w.must(AtCommand(), "", revision, "sh", "-c", `cp "$KUBECONFIG" `+file)
	w.kubeconfig, file = file, w.kubeconfig
	config, err := clientcmd.BuildConfigFromFlags("", w.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	then := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default")
	if m, err := then.Get(t.Context(), "settings", metav1.GetOptions{}); err != nil || m.Data["key"] != "1" {
		t.Errorf("it was %v, %v", m, err)
	}
	w.kubeconfig = file
	if out := w.must(AtCommand(), "", "0s"); !strings.Contains(out, "/at/") {
		t.Errorf("the URL is %q", out)
	}
	w.must(AtCommand(), "", "--save-context", "before", revision)
	saved, err := clientcmd.LoadFromFile(w.kubeconfig)
	if err != nil || !strings.HasSuffix(saved.Clusters["before"].Server, "/at/"+revision) || saved.CurrentContext == "before" {
		t.Errorf("the kubeconfig is %v, %v", saved, err)
	}
	if _, err := w.run(AtCommand(), "", "--save-context", "before", revision); err == nil {
		t.Error("a context was overwritten")
	}
	if _, err := w.run(AtCommand(), "", "yesterday", "true"); err == nil || !strings.Contains(err.Error(), "is no moment") {
		t.Errorf("a wrong moment: %v", err)
	}
	if _, err := w.run(AtCommand(), "", "0s", "false"); err == nil {
		t.Error("a command that fails")
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "millrace-at-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
