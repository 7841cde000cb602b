//go:build linux

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/millrace/millrace/internal/kubelet/container"
)

// cluster is the program as users run it: an API server with its loops in one process, and a kubelet in another.
type cluster struct {
	t         *testing.T
	program   string
	directory string
	// listen is where the API is, so that it can come back there.
	listen  string
	control *process
	node    *process
	kube    kubernetes.Interface
}

// nodeName is the node that the containers run on.
const nodeName = "real"

// newCluster starts one. What is to be done before there is a node is done then.
func newCluster(t *testing.T, before ...func(*cluster)) *cluster {
	c := &cluster{t: t, directory: rootDirectory(t), listen: portOf(t, "127.0.0.1")}
	c.program = os.Getenv("MILLRACE_E2E_PROGRAM") // one that was built before
	if c.program == "" {
		c.program = filepath.Join(c.directory, "millrace")
		c.build()
	}
	c.startControl()
	t.Cleanup(func() { c.control.end(syscall.SIGTERM) })
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	if c.kube, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	for _, do := range before {
		do(c)
	}
	c.startNode()
	t.Cleanup(c.clear)
	return c
}

func (c *cluster) build() {
	c.t.Helper()
	if text, err := exec.Command("go", "build", "-o", c.program, "../../../cmd/millrace").CombinedOutput(); err != nil {
		c.t.Fatalf("build the program: %v\n%s", err, text)
	}
}

func (c *cluster) kubeconfig() string { return filepath.Join(c.directory, "data", "kubeconfig") }
func (c *cluster) manifests() string  { return filepath.Join(c.directory, "manifests") }

func (c *cluster) startControl() {
	c.t.Helper()
	c.control = c.begin("up", "--nodes", "0", "--data", filepath.Join(c.directory, "data"), "--listen", c.listen)
	eventually(c.t, "the API is ready", func() bool { return strings.Contains(c.control.said(), "Ready after") })
}

func (c *cluster) startNode(flags ...string) {
	c.t.Helper()
	if err := os.MkdirAll(c.manifests(), 0o755); err != nil {
		c.t.Fatal(err)
	}
	c.node = c.begin(append([]string{
		"kubelet", "--kubeconfig", c.kubeconfig(), "--container-runtime-endpoint", socket(c.t), "--root-dir", filepath.Join(c.directory, "kubelet"),
		"--hostname-override", nodeName, "--port", "0", "--healthz-port", "0", "--pod-manifest-path", c.manifests(), "--container-log-max-size", "20Ki",
		"--eviction-hard", "memory.available<1Mi", // whatever else this machine is short of
	}, flags...)...)
	eventually(c.t, "the node is ready", func() bool {
		n, err := c.kube.CoreV1().Nodes().Get(c.t.Context(), nodeName, metav1.GetOptions{})
		return err == nil && nodeCondition(n, corev1.NodeReady) == corev1.ConditionTrue
	})
}

func nodeCondition(n *corev1.Node, kind corev1.NodeConditionType) corev1.ConditionStatus {
	for _, c := range n.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

// clear ends all pods and then the node.
func (c *cluster) clear() {
	entries, _ := filepath.Glob(c.manifests() + "/*")
	for _, e := range entries {
		os.Remove(e)
	}
	ctx := context.Background()
	namespaces, err := c.kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		c.t.Error(err)
	} else {
		for _, n := range namespaces.Items {
			_ = c.kube.AppsV1().Deployments(n.Name).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
			_ = c.kube.CoreV1().Pods(n.Name).DeleteCollection(ctx, *metav1.NewDeleteOptions(1), metav1.ListOptions{})
		}
	}
	r := openCRI(c.t)
	var all []container.Pod
	gone := soon(func() bool {
		all, err = r.Pods(ctx)
		return err == nil && len(all) == 0
	})
	c.node.end(syscall.SIGTERM) // in any case: whoever comes next has the runtime for itself
	if !gone {
		c.t.Errorf("pods are left: %+v, %v; the kubelet said\n%s", all, err, c.node.said())
	}
	if left, _ := filepath.Glob(filepath.Join(c.directory, "kubelet", "pods", "*", "volumes", "*")); len(left) > 0 {
		c.t.Errorf("volumes are left: %q", left)
	}
	for _, line := range strings.Split(c.node.said(), "\n") {
		if strings.Contains(line, "panic") || strings.Contains(line, "DATA RACE") {
			c.t.Errorf("the kubelet said: %s", line)
		}
	}
}

// process is a run of the program.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	log   string
	ended chan struct{}
}

func (c *cluster) begin(args ...string) *process {
	c.t.Helper()
	log, err := os.OpenFile(filepath.Join(c.directory, args[0]+".log"), os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	defer log.Close()
	p := &process{t: c.t, log: log.Name(), cmd: exec.Command(c.program, args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended shows in what it said
		close(p.ended)
	}()
	return p
}

func (p *process) said() string {
	text, _ := os.ReadFile(p.log)
	return string(text)
}

func (p *process) end(s syscall.Signal) {
	_ = p.cmd.Process.Signal(s)
	select {
	case <-p.ended:
	case <-time.After(testTimeout):
		p.t.Errorf("%s does not end; it said\n%s", p.cmd.Args[1], p.said())
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// long marks what only a release runs.
func long(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
}

// eventually waits for what real containers do in real time.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	if !soon(holds) {
		t.Fatalf("it never was that %s", what)
	}
}

func soon(holds func() bool) bool {
	for end := time.Now().Add(testTimeout); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// room is a namespace for one test.
type room struct {
	*cluster
	t    *testing.T
	name string
}

func (c *cluster) room(t *testing.T, name string) *room {
	t.Helper()
	r := &room{c, t, name}
	if _, err := c.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			r.confess()
		}
	})
	return r
}

// confess tells what there was when a test failed.
func (r *room) confess() {
	for _, args := range [][]string{
		{"get", "pods", "-o", "wide"},
		{"get", "pods", "-o", `jsonpath={range .items[*]}{.metadata.name} {range .status.conditions[?(@.type=="Ready")]}{.status} since {.lastTransitionTime} {.message}{"\n"}{end}{end}`},
		{"get", "events", "--sort-by=.lastTimestamp"},
	} {
		text, _ := r.command(args...).CombinedOutput()
		r.t.Logf("%s:\n%s", strings.Join(args, " "), text)
	}
}

// command is kubectl in the room.
func (r *room) command(args ...string) *exec.Cmd {
	cmd := exec.Command(r.program, append([]string{"kubectl", "--kubeconfig", r.kubeconfig(), "--namespace", r.name}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// kubectl runs a command that must succeed.
func (r *room) kubectl(args ...string) string {
	r.t.Helper()
	return r.spoken(nil, "", args...)
}

// spoken runs kubectl with an environment and an input.
func (r *room) spoken(env []string, input string, args ...string) string {
	r.t.Helper()
	out, errs, err := r.try(env, input, args...)
	if err != nil {
		r.t.Fatalf("kubectl %s: %v\n%s%s", strings.Join(args, " "), err, out, errs)
	}
	return out
}

func (r *room) try(env []string, input string, args ...string) (out, errs string, err error) {
	cmd := r.command(args...)
	cmd.Env = append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err = r.begun(cmd, input); err != nil {
		return "", "", err
	}
	timer := time.AfterFunc(testTimeout, func() { _ = cmd.Process.Kill() })
	err = cmd.Wait()
	if !timer.Stop() {
		err = errors.Join(err, context.DeadlineExceeded)
	}
	return stdout.String(), stderr.String(), err
}

// begun starts a command with an input, which stays open if it ends with a line that ends a shell: what is attached
// without "once" is cut off at the input's end.
func (r *room) begun(cmd *exec.Cmd, input string) error {
	if !strings.HasSuffix(input, "exit\n") {
		cmd.Stdin = strings.NewReader(input)
		return cmd.Start()
	}
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	defer out.Close()
	r.t.Cleanup(func() { in.Close() })
	cmd.Stdin = out
	if _, err := in.WriteString(input); err != nil {
		return err
	}
	return cmd.Start()
}

func (r *room) apply(text string) {
	r.t.Helper()
	r.spoken(nil, text, "apply", "-f", "-")
}

// pod makes a pod whose one container runs a command, with more lines for the container and for the pod.
func (r *room) pod(name, command string, more ...string) {
	r.t.Helper()
	r.apply(podText(name, command, more...))
}

func podText(name, command string, more ...string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, labels: {app: %s}}\nspec:\n  terminationGracePeriodSeconds: 10\n  containers:\n  - name: main\n    image: %s\n    command: [/bin/sh, -c, %q]\n%s\n",
		name, name, image, command, strings.Join(more, "\n"))
}

// rests is a command that does nothing, and ends when it is asked to.
const rests = "trap 'exit 0' TERM; sleep 1000000 & wait"

func (r *room) get(name string) *corev1.Pod {
	p, err := r.kube.CoreV1().Pods(r.name).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return &corev1.Pod{}
	}
	return p
}

// until waits until a pod is as described, and returns it.
func (r *room) until(name, what string, holds func(*corev1.PodStatus) bool) *corev1.Pod {
	r.t.Helper()
	var p *corev1.Pod
	eventually(r.t, "pod "+name+" is "+what, func() bool { p = r.get(name); return p.UID != "" && holds(&p.Status) })
	return p
}

func (r *room) ready(name string) *corev1.Pod {
	r.t.Helper()
	return r.until(name, "ready", ready)
}

// gone waits until a pod is deleted.
func (r *room) gone(name string) {
	r.t.Helper()
	eventually(r.t, "pod "+name+" is gone", func() bool { return r.get(name).UID == "" })
}

// told waits for an event with a reason, and a text in it.
func (r *room) told(name, reason, text string) {
	r.t.Helper()
	eventually(r.t, fmt.Sprintf("an event of %s says %s: %s", name, reason, text), func() bool {
		all, err := r.kube.CoreV1().Events(r.name).List(context.Background(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + name + ",reason=" + reason})
		if err != nil {
			return false
		}
		for _, e := range all.Items {
			if strings.Contains(e.Message, text) {
				return true
			}
		}
		return false
	})
}

func (r *room) host() string {
	n, err := r.kube.CoreV1().Nodes().Get(context.Background(), nodeName, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return n.Status.Addresses[0].Address
}
