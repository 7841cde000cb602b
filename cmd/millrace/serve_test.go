package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/cmd/millrace/internal/serving"
	"github.com/millrace/millrace/internal/filelock"
	"github.com/millrace/millrace/internal/server/store/etcd"
)

// running is a command that runs beside the test.
type running struct {
	out   *bufio.Reader
	end   context.CancelFunc
	ended chan error
}

// begin runs a command line until the test ends or stops it.
func begin(t *testing.T, args ...string) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	from, to := io.Pipe()
	r := &running{out: bufio.NewReader(from), end: cancel, ended: make(chan error, 1)}
	c := commandFor("millrace", args)
	c.SetArgs(args)
	c.SetOut(to)
	go func() {
		err := c.ExecuteContext(ctx)
		to.CloseWithError(io.EOF)
		r.ended <- err
	}()
	t.Cleanup(func() {
		cancel()
		io.Copy(io.Discard, from)
	})
	return r
}

// kubeconfig waits for the line with the kubeconfig's path.
func (r *running) kubeconfig(t *testing.T) string {
	t.Helper()
	for {
		text, err := r.out.ReadString('\n')
		if err != nil {
			t.Fatalf("it ended: %v", <-r.ended)
		}
		if path, ok := strings.CutPrefix(text, "export KUBECONFIG="); ok {
			go io.Copy(io.Discard, r.out)
			return strings.TrimSpace(path)
		}
	}
}

func connect(t *testing.T, kubeconfig string) *kubernetes.Clientset {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	k, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestUpStopsWithOpenWatchesAndLeavesNoFile(t *testing.T) {
	up := begin(t, "up", "--data=memory", "--listen=127.0.0.1:0", "--nodes=2")
	path := up.kubeconfig(t)
	k := connect(t, path)
	w, err := k.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if e := <-w.ResultChan(); e.Object.(*corev1.Node).Name != "hollow-0" && e.Object.(*corev1.Node).Name != "hollow-1" {
		t.Errorf("unexpected %v", e.Object)
	}
	up.end()
	if err := <-up.ended; err != nil {
		t.Error(err)
	}
	for range w.ResultChan() {
		// It ends.
	}
	if _, err := os.Stat(filepath.Dir(path)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the kubeconfig is still there: %v", err)
	}
}

func TestComponentsThatRunAloneFormOneCluster(t *testing.T) {
	server := begin(t, "apiserver", "--storage-backend=memory", "--bind-address=127.0.0.1", "--secure-port=0")
	path := server.kubeconfig(t)
	parts := []*running{
		begin(t, "controllers", "--kubeconfig="+path, "--controllers=deployment,replicaset,serviceaccount,nodelifecycle", "--concurrent-replicaset-syncs=2", "--secure-port=0"),
		begin(t, "scheduler", "--kubeconfig="+path, "--secure-port=0"),
		begin(t, "kubelet", "--kubeconfig="+path, "--nodes=1"),
	}
	for _, p := range parts {
		go io.Copy(io.Discard, p.out)
	}
	k := connect(t, path)
	w, err := k.CoreV1().Pods("default").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"app": "web"}
	if _, err := k.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}}}},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var pod *corev1.Pod
	for e := range w.ResultChan() {
		if pod = e.Object.(*corev1.Pod); pod.Status.Phase == corev1.PodRunning {
			break
		}
	}
	w.Stop()
	if pod.Spec.ServiceAccountName != "default" {
		t.Errorf("account %q", pod.Spec.ServiceAccountName)
	}
	if _, err := k.CoreV1().Pods("default").GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(t.Context()); err != nil {
		t.Errorf("log: %v", err)
	}
	for _, p := range append(parts, server) {
		p.end()
		if err := <-p.ended; err != nil {
			t.Error(err)
		}
	}
}

func TestAPortInUseIsReported(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = execute(t, "up", "--data=memory", "--listen="+l.Addr().String())
	if want := l.Addr().String() + " is in use by another process: choose another address with --listen (port 0 takes a free one)"; err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	data := lockedDirectory(t)
	_, err = execute(t, "up", "--data="+data, "--listen="+l.Addr().String())
	if err == nil || !strings.HasPrefix(err.Error(), "a cluster is running in "+data+" already, at "+l.Addr().String()) {
		t.Errorf("%v", err)
	}
}

// lockedDirectory returns a data directory that seems to be in use.
func lockedDirectory(t *testing.T) string {
	t.Helper()
	data := t.TempDir()
	if err := os.Mkdir(filepath.Join(data, "journal"), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(data, "journal", "lock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := filelock.Lock(f); err != nil {
		t.Fatal(err)
	}
	return data
}

func TestADataDirectoryInUseIsReported(t *testing.T) {
	data := lockedDirectory(t)
	_, err := execute(t, "up", "--listen=127.0.0.1:0", "--data="+data)
	if want := "the data directory " + data + " is in use by another process: end that one, or choose another directory with --data"; err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}

func TestAnUnusableDataDirectoryIsReportedAsSuch(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(file, "data")
	_, err := execute(t, "up", "--listen=127.0.0.1:0", "--data="+data)
	if err == nil || !strings.HasPrefix(err.Error(), "the data directory "+data+" cannot be used: ") || !strings.HasSuffix(err.Error(), ": choose another with --data") {
		t.Errorf("%v", err)
	}
}

func TestAnEtcdThatDoesNotAnswerIsNamedInTheError(t *testing.T) {
	servers := []string{"http://127.0.0.1:1"}
	_, err := etcd.Dial(t.Context(), etcd.Options{Endpoints: servers, DialTimeout: time.Millisecond})
	if err == nil {
		t.Fatal("it answers")
	}
	err = serving.Explain(err, millrace.Options{Etcd: millrace.EtcdOptions{Servers: servers}}, "--listen")
	if !strings.HasPrefix(err.Error(), "no etcd answers at http://127.0.0.1:1: start it, or correct --etcd-servers") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
}
