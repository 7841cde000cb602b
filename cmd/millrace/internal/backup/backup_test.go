package backup

import (
	"bytes"
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

	"github.com/millrace/millrace"
)

func start(t *testing.T, data string) (kube kubernetes.Interface, end func()) {
	t.Helper()
	c, err := millrace.Start(t.Context(), millrace.Options{
		Data: data, Controllers: []string{}, NoScheduler: true, History: millrace.HistoryOptions{Age: time.Hour, Bytes: 1 << 30},
	})
	if err != nil {
		t.Fatal(err)
	}
	return kubernetes.NewForConfigOrDie(c.Config()), func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// set sets the value of a config map, and returns the resource version.
func set(t *testing.T, kube kubernetes.Interface, value string) string {
	t.Helper()
	maps := kube.CoreV1().ConfigMaps("default")
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"key": value}}
	stored, err := maps.Update(t.Context(), m, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		stored, err = maps.Create(t.Context(), m, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return stored.ResourceVersion
}

// valueIn starts a cluster with a directory, and returns the value that it has.
func valueIn(t *testing.T, data string) string {
	t.Helper()
	kube, end := start(t, data)
	defer end()
	m, err := kube.CoreV1().ConfigMaps("default").Get(t.Context(), "settings", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return m.Data["key"]
}

func run(t *testing.T, c *cobra.Command, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	c.SetArgs(args)
	c.SetOut(&out)
	c.SetErr(&out)
	c.SilenceUsage, c.SilenceErrors = true, true
	err := c.ExecuteContext(t.Context())
	return out.String(), err
}

func must(t *testing.T, c *cobra.Command, args ...string) string {
	t.Helper()
	out, err := run(t, c, args...)
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return out
}

func TestABackupOfARunningClusterIsAClusterAsItWas(t *testing.T) {
	data, copied, restored, before := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "restored"), filepath.Join(t.TempDir(), "before")
	kube, end := start(t, data)
	first := set(t, kube, "1")
	set(t, kube, "2")
	must(t, Command(), "--once", "--data", data, copied)
	set(t, kube, "3")
	must(t, Command(), "--once", "--data", data, copied)
	set(t, kube, "4")
	if out := must(t, VerifyCommand(), data); !strings.Contains(out, "1 segments") {
		t.Errorf("a running cluster: %s", out)
	}
	end()
	must(t, VerifyCommand(), copied)
	must(t, RestoreCommand(), "--data", restored, copied)
	must(t, RestoreCommand(), "--data", before, "--at", first, copied)
	for dir, want := range map[string]string{data: "4", restored: "3", before: "1"} {
		if got := valueIn(t, dir); got != want {
			t.Errorf("%s has %s, want %s", dir, got, want)
		}
		for _, name := range []string{"ca.crt", "ca.key"} {
			one, err := os.ReadFile(filepath.Join(data, "pki", name))
			other, err2 := os.ReadFile(filepath.Join(dir, "pki", name))
			if err != nil || err2 != nil || !bytes.Equal(one, other) {
				t.Errorf("%s of %s is another one, or missing: %v, %v", name, dir, err, err2)
			}
		}
	}
	if _, err := run(t, RestoreCommand(), "--data", restored, copied); err == nil {
		t.Error("a cluster was overwritten")
	}
	if _, err := run(t, RestoreCommand(), "--data", t.TempDir(), "--at", "yesterday", copied); err == nil || !strings.Contains(err.Error(), "is no moment") {
		t.Errorf("a wrong moment: %v", err)
	}
	if _, err := run(t, Command(), "--once", "--data", t.TempDir(), t.TempDir()); err == nil {
		t.Error("nothing was copied")
	}
}

func TestVerifyNamesTheFileThatCannotBeRead(t *testing.T) {
	data := t.TempDir()
	kube, end := start(t, data)
	set(t, kube, "1")
	end()
	segments, err := filepath.Glob(filepath.Join(data, "journal", "*.log"))
	if err != nil || len(segments) != 1 {
		t.Fatal(segments, err)
	}
	text, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	text[100] ^= 1
	if err := os.WriteFile(segments[0], text, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := run(t, VerifyCommand(), data)
	if err == nil || !strings.Contains(out, "broken: "+filepath.Base(segments[0])) {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestABackupHasTheControlPlanesToo(t *testing.T) {
	data, copied, restored := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "restored")
	host := func(data string) *millrace.Cluster {
		c, err := millrace.Start(t.Context(), millrace.Options{Data: data, Controllers: []string{}, NoScheduler: true, Planes: true})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	ready := func(c *millrace.Cluster) kubernetes.Interface {
		kube := kubernetes.NewForConfigOrDie(c.Plane("dev"))
		for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			_, err := kube.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{})
			if err == nil {
				return kube
			}
			if time.Now().After(end) {
				t.Fatal(err)
			}
		}
	}
	c := host(data)
	_, err := kubernetes.NewForConfigOrDie(c.InProcess()).CoreV1().RESTClient().Post().AbsPath("/apis/planes.millrace.dev/v1alpha1/controlplanes").
		Body([]byte(`{"apiVersion":"planes.millrace.dev/v1alpha1","kind":"ControlPlane","metadata":{"name":"dev"}}`)).
		SetHeader("Content-Type", "application/json").Do(t.Context()).Raw()
	if err != nil {
		t.Fatal(err)
	}
	set(t, ready(c), "of the plane")
	must(t, Command(), "--once", "--data", data, copied)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	must(t, RestoreCommand(), "--data", restored, copied)
	c = host(restored)
	defer c.Close()
	m, err := ready(c).CoreV1().ConfigMaps("default").Get(t.Context(), "settings", metav1.GetOptions{})
	if err != nil || m.Data["key"] != "of the plane" {
		t.Errorf("the restored plane has %v, %v", m.Data, err)
	}
}
