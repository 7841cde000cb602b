package data

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/server/store/etcd/etcdtest"
)

// run runs a command and returns what it prints.
func run(t *testing.T, c *cobra.Command, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	c.SetArgs(args)
	c.SetOut(&out)
	c.SetErr(&out)
	c.SilenceErrors, c.SilenceUsage = true, true
	err := c.ExecuteContext(t.Context())
	return out.String(), err
}

// during runs a function with the config maps of a cluster.
func during(t *testing.T, o millrace.Options, do func(typedcorev1.ConfigMapInterface)) {
	t.Helper()
	o.Controllers, o.NoScheduler = []string{}, true
	c, err := millrace.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	k, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	do(k.CoreV1().ConfigMaps("default"))
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAClusterMovesToAnEtcdClusterAndBack(t *testing.T) {
	here, there, server := t.TempDir(), t.TempDir(), etcdtest.Start(t, etcdtest.Options{}).URL
	during(t, millrace.Options{Data: here}, func(maps typedcorev1.ConfigMapInterface) {
		if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	})
	const key = "/registry/configmaps/default/kept"
	if out, err := run(t, Command(), "get", "--data", here, "--keys-only", "/registry/configmaps/default"); err != nil || out != key+"\n" {
		t.Errorf("get printed %q, %v", out, err)
	}
	if out, err := run(t, Command(), "get", "--data", here); err != nil || !strings.Contains(out, key+"\nk8s\x00") {
		t.Errorf("get printed %d bytes, %v", len(out), err)
	}
	if out, err := run(t, Command(), "export", "--data", here, "--etcd-servers", server); err != nil || !strings.Contains(out, "objects copied in") {
		t.Errorf("export printed %q, %v", out, err)
	}
	if _, err := run(t, Command(), "export", "--data", here, "--etcd-servers", server); err == nil || !strings.Contains(err.Error(), "has objects already, such as /registry/") {
		t.Errorf("a second export: %v", err)
	}
	var changed *corev1.ConfigMap
	during(t, millrace.Options{Etcd: millrace.EtcdOptions{Servers: []string{server}}, Keys: filepath.Join(here, "pki")}, func(maps typedcorev1.ConfigMapInterface) {
		m, err := maps.Get(t.Context(), "kept", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		m.Data = map[string]string{"k": "v"}
		if changed, err = maps.Update(t.Context(), m, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	})
	if out, err := run(t, Command(), "import", "--data", there, "--etcd-servers", server); err != nil || !strings.Contains(out, "objects copied in") {
		t.Errorf("import printed %q, %v", out, err)
	}
	during(t, millrace.Options{Data: there}, func(maps typedcorev1.ConfigMapInterface) {
		m, err := maps.Get(t.Context(), "kept", metav1.GetOptions{})
		if err != nil || m.ResourceVersion != changed.ResourceVersion || m.UID != changed.UID || m.Data["k"] != "v" {
			t.Errorf("after the import there is %v, %v; before there was %v", m, err, changed)
		}
	})
	if _, err := run(t, Command(), "import", "--data", there, "--etcd-servers", server); err == nil || !strings.Contains(err.Error(), "there is a log in "+there) {
		t.Errorf("a second import: %v", err)
	}
}

// saveSnapshot makes a snapshot as etcdctl does.
func saveSnapshot(t *testing.T, server, path string) {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{server}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	from, err := c.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestASnapshotOfAnEtcdClusterIsImported(t *testing.T) {
	keys, server := t.TempDir(), etcdtest.Start(t, etcdtest.Options{})
	var made *corev1.ConfigMap
	during(t, millrace.Options{Etcd: millrace.EtcdOptions{Servers: []string{server.URL}}, Keys: keys}, func(maps typedcorev1.ConfigMapInterface) {
		var err error
		if made, err = maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}, Data: map[string]string{"k": "v"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	})
	path, data := filepath.Join(t.TempDir(), "snapshot.db"), t.TempDir()
	saveSnapshot(t, server.URL, path)
	if out, err := run(t, Command(), "import", "--data", data, "--snapshot", path); err != nil || !strings.Contains(out, "objects copied in") {
		t.Errorf("import printed %q, %v", out, err)
	}
	during(t, millrace.Options{Data: data, Keys: keys}, func(maps typedcorev1.ConfigMapInterface) {
		m, err := maps.Get(t.Context(), "kept", metav1.GetOptions{})
		if err != nil || m.ResourceVersion != made.ResourceVersion || m.UID != made.UID || m.Data["k"] != "v" {
			t.Errorf("after the import there is %v, %v; before there was %v", m, err, made)
		}
	})
	// A file that was cut off, one that lacks its sum, and directories that have something.
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	short, old, none := path+".short", t.TempDir(), path+".none"
	if err := os.WriteFile(short, whole[:len(whole)-32], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(old, "etcd"), 0o700); err != nil {
		t.Fatal(err)
	}
	saveSnapshot(t, etcdtest.Start(t, etcdtest.Options{}).URL, none)
	for _, c := range []struct {
		want string
		args []string
	}{
		{"there is a log in " + data, []string{"--data", data, "--snapshot", path}},
		{"there is the database of an earlier version in " + old, []string{"--data", old, "--snapshot", path}},
		{short + ": it has no sum of its content", []string{"--data", t.TempDir(), "--snapshot", short}},
		{"no key begins with /registry/", []string{"--data", t.TempDir(), "--snapshot", none}},
		{"[etcd-servers snapshot] were all set", []string{"--data", t.TempDir(), "--snapshot", path, "--etcd-servers", server.URL}},
		{"--skip-hash-check needs --snapshot", []string{"--data", t.TempDir(), "--skip-hash-check", "--etcd-servers", server.URL}},
		{"no such file", []string{"--data", t.TempDir(), "--snapshot", path + ".other"}},
	} {
		if out, err := run(t, Command(), append([]string{"import"}, c.args...)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v printed %q, and the error is %v, want %s", c.args, out, err, c.want)
		}
	}
	if out, err := run(t, Command(), "import", "--data", t.TempDir(), "--snapshot", short, "--skip-hash-check"); err != nil || !strings.Contains(out, "objects copied in") {
		t.Errorf("without the check, import printed %q, %v", out, err)
	}
}

func TestWhatCannotBeReadOrMovedIsTold(t *testing.T) {
	empty, used := t.TempDir(), t.TempDir()
	c, err := millrace.Start(t.Context(), millrace.Options{Data: used, Controllers: []string{}, NoScheduler: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for want, args := range map[string][]string{
		"there is no log in " + empty:            {"get", "--data", empty},
		"is in use by another process":           {"get", "--data", used},
		"name the etcd cluster":                  {"import", "--data", empty},
		"cannot be reached":                      {"import", "--data", empty, "--etcd-servers", "http://127.0.0.1:1", "--etcd-start-timeout", "100ms"},
		"accepts at most 1 arg(s), received 2":   {"get", "a", "b"},
		"name the etcd cluster with --etcd-serv": {"export", "--data", used},
	} {
		if out, err := run(t, Command(), args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v printed %q, and the error is %v, want %s", args, out, err, want)
		}
	}
}

func TestTheHistoryForgetsAnObject(t *testing.T) {
	data := t.TempDir()
	c, err := millrace.Start(t.Context(), millrace.Options{
		Data: data, Controllers: []string{}, NoScheduler: true, History: millrace.HistoryOptions{Age: time.Hour, Bytes: 1 << 30},
	})
	if err != nil {
		t.Fatal(err)
	}
	secrets := kubernetes.NewForConfigOrDie(c.Config()).CoreV1().Secrets("default")
	for i := range 3 {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "password"}, StringData: map[string]string{"p": fmt.Sprint(i)}}
		if i == 0 {
			_, err = secrets.Create(t.Context(), s, metav1.CreateOptions{})
		} else {
			_, err = secrets.Update(t.Context(), s, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	const key = "/registry/secrets/default/password"
	forget := func(answer string) string {
		c := forgetCommand()
		c.SetIn(strings.NewReader(answer))
		out, err := run(t, c, "--data", data, key)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if out := forget("n\n"); !strings.Contains(out, "Nothing was removed") {
		t.Errorf("after a no: %s", out)
	}
	if out := forget("y\n"); !strings.Contains(out, "2 past versions") {
		t.Errorf("after a yes: %s", out)
	}
	if out, err := run(t, getCommand(), "--data", data, key); err != nil || !strings.Contains(out, key) {
		t.Errorf("now there is %s, %v", out, err)
	}
}
