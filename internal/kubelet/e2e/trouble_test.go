//go:build linux

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/kubelet/container"
)

const deploymentText = `apiVersion: apps/v1
kind: Deployment
metadata: {name: %s}
spec:
  replicas: 3
  selector: {matchLabels: {app: %s}}
  template:
    metadata: {labels: {app: %s}}
    spec:
      terminationGracePeriodSeconds: 2
      containers:
      - {name: main, image: "localhost/box:1", command: [/bin/sh, -c, "%s"]}
`

// deployments roll from one image to the next.
func deployments(t *testing.T, c *cluster) {
	r := c.room(t, "deployments")
	r.apply(fmt.Sprintf(deploymentText, "web", "web", "web", rests))
	r.kubectl("rollout", "status", "deployment", "web", "--timeout=120s")
	r.kubectl("set", "image", "deployment/web", "main=localhost/box:2")
	r.kubectl("rollout", "status", "deployment", "web", "--timeout=120s")
	if out := r.kubectl("get", "pods", "-l", "app=web", "--field-selector=status.phase=Running", "-o", "jsonpath={.items[*].spec.containers[0].image}"); !strings.Contains(out, "box:2") {
		t.Errorf("after the update the images are %q", out)
	}
	r.kubectl("delete", "deployment", "web")
	eventually(t, "its pods are gone", func() bool { return r.kubectl("get", "pods", "-o", "name") == "" })
}

// ports of the node lead to pods, where the network can do that.
func ports(t *testing.T, c *cluster) {
	r := c.room(t, "ports")
	_, port, _ := strings.Cut(portOf(t, "127.0.0.1"), ":")
	r.pod("web", serves, "    ports: [{containerPort: 8080, hostPort: "+port+"}]")
	p := r.ready("web")
	if !strings.HasPrefix(p.Status.PodIP, "10.231.0.") {
		t.Errorf("the pod's address is %s", p.Status.PodIP)
	}
	eventually(t, "the pod answers at its address", func() bool { return fetch("http://"+p.Status.PodIP+":8080") == "hello\n" })
	eventually(t, "the pod answers at the node's port", func() bool { return fetch("http://"+r.host()+":"+port) == "hello\n" })
	r.pod("second", rests, "    ports: [{containerPort: 8080, hostPort: "+port+"}]", "  nodeName: "+nodeName)
	if p := r.until("second", "refused", in(corev1.PodFailed)); p.Status.Reason != "NodePorts" {
		t.Errorf("a pod that wants the same port is told %s: %s", p.Status.Reason, p.Status.Message)
	}
}

// crowd is many pods at once, 25 or $MILLRACE_E2E_CROWD: made, deleted while they start, and made again under the same
// names.
func crowd(t *testing.T, c *cluster) {
	r := c.room(t, "crowd")
	count := 25
	if text := os.Getenv("MILLRACE_E2E_CROWD"); text != "" {
		var err error
		if count, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	var all strings.Builder
	for i := range count {
		fmt.Fprintf(&all, "---\n%s", podText(fmt.Sprintf("p%d", i), rests))
	}
	r.apply(all.String())
	r.kubectl("delete", "pods", "--all", "--wait=false")
	eventually(t, "they can be made again", func() bool {
		_, _, err := r.try(nil, all.String(), "apply", "-f", "-")
		return err == nil && !strings.Contains(r.kubectl("get", "pods", "-o", "jsonpath={.items[*].metadata.deletionTimestamp}"), "Z") && strings.Count(r.kubectl("get", "pods", "-o", "name"), "\n") == count
	})
	r.kubectl("wait", "--for=condition=Ready", "pods", "--all", "--timeout=240s")
	r.kubectl("delete", "pods", "--all", "--timeout=120s")
	runs := openCRI(t)
	eventually(t, "nothing is left of them", func() bool {
		all, err := runs.Pods(context.Background())
		return err == nil && !slices.ContainsFunc(all, func(p container.Pod) bool { return p.Namespace == r.name })
	})
}

// statics are pods of files: shown in the API, and kept whatever is said there.
func statics(t *testing.T, c *cluster) {
	r := c.room(t, "statics")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(c.manifests(), name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	manifest := strings.Replace(podText("static", rests), "metadata: {", "metadata: {namespace: statics, ", 1)
	write("broken.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: [")
	write("half.yaml", manifest[:len(manifest)/2])
	write("static.yaml", manifest)
	name := "static-" + nodeName
	first := r.ready(name)
	r.kubectl("delete", "pod", name, "--wait=false")
	again := r.until(name, "there again", func(s *corev1.PodStatus) bool { return ready(s) && r.get(name).UID != first.UID })
	if a, b := of(&first.Status, "main"), of(&again.Status, "main"); a.ContainerID != b.ContainerID || b.RestartCount > 0 {
		t.Errorf("who deleted the mirror changed the pod from %+v to %+v", a, b)
	}
	write("static.yaml", manifest[:len(manifest)/3]) // as if somebody were writing it
	time.Sleep(2 * time.Second)                      // as long as it would take to do what must not be done
	if p := r.get(name); of(&p.Status, "main").ContainerID != of(&first.Status, "main").ContainerID {
		t.Errorf("a file that is half written changed the pod to %+v", p.Status)
	}
	write("static.yaml", strings.Replace(manifest, "box:1", "box:2", 1))
	r.until(name, "of the other image", func(s *corev1.PodStatus) bool {
		return of(s, "main").Image == "localhost/box:2" && of(s, "main").State.Running != nil
	})
	for _, name := range []string{"static.yaml", "broken.yaml", "half.yaml"} {
		if err := os.Remove(filepath.Join(c.manifests(), name)); err != nil {
			t.Error(err)
		}
	}
	r.gone(name)
}

// survivors are pods that must go on through whatever happens around them.
type survivors struct {
	*room
	pods []*corev1.Pod
}

func (s survivors) in(t *testing.T) *survivors {
	s.room = s.room.in(t)
	return &s
}

func (r *room) survivors() *survivors {
	r.t.Helper()
	s := &survivors{room: r}
	r.apply(fmt.Sprintf(deploymentText, "stays", "stays", "stays", rests))
	r.kubectl("rollout", "status", "deployment", "stays", "--timeout=120s")
	all, err := r.kube.CoreV1().Pods(r.name).List(context.Background(), metav1.ListOptions{LabelSelector: "app=stays"})
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range all.Items {
		s.pods = append(s.pods, &all.Items[i])
	}
	return s
}

// unharmed checks that the same containers run as before, and that new pods run as well.
func (s *survivors) unharmed(after string) {
	s.t.Helper()
	name := "after-" + after
	s.pod(name, rests)
	s.ready(name)
	for _, p := range s.pods {
		now := s.get(p.Name)
		if a, b := of(&p.Status, "main"), of(&now.Status, "main"); now.UID != p.UID || a.ContainerID != b.ContainerID || b.RestartCount > 0 || b.State.Running == nil {
			s.t.Errorf("after %s pod %s has %+v, before it had %+v", after, p.Name, b, a)
		}
	}
}

// trouble comes to one part after the other, under pods that run.
func trouble(t *testing.T, c *cluster) {
	r := c.room(t, "trouble")
	directory := c.t.TempDir() // pods mount it to their end
	s := r.survivors()
	r.pod("orphan", rests, "    lifecycle: {preStop: {exec: {command: [sh, -c, 'echo told >/out/orphan']}}}", "    volumeMounts: [{name: out, mountPath: /out}]", "  volumes: [{name: out, hostPath: {path: "+directory+"}}]")
	r.ready("orphan")
	t.Run("the kubelet is killed", func(t *testing.T) {
		s := s.in(t)
		c.node.end(syscall.SIGKILL)
		r.kubectl("delete", "pod", "orphan", "--force", "--grace-period=0")
		c.startNode()
		s.unharmed("the-kubelet-is-killed")
		eventually(t, "a pod that was deleted meanwhile is told before its end", func() bool {
			text, _ := os.ReadFile(filepath.Join(directory, "orphan"))
			return string(text) == "told\n"
		})
	})
	t.Run("containerd is restarted", func(t *testing.T) {
		s := s.in(t)
		if text, err := exec.Command("./setup.sh", "restart").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		s.unharmed("containerd-is-restarted")
	})
	t.Run("the runtime hangs", func(t *testing.T) { long(t); s.in(t).hang(c.t.TempDir()) })
	t.Run("the API server is away", func(t *testing.T) { long(t); s.in(t).withoutAPI(c.t.TempDir()) })
	t.Run("the node is cut off", func(t *testing.T) { s.in(t).cutOff() })
	t.Run("the node is drained", func(t *testing.T) {
		r := r.in(t)
		r.kubectl("drain", nodeName, "--ignore-daemonsets", "--force", "--delete-emptydir-data", "--timeout=120s", "--pod-selector=app in (stays)")
		eventually(t, "their followers wait for a node", func() bool {
			out := r.kubectl("get", "pods", "-l", "app=stays", "-o", "jsonpath={range .items[*]}{.status.phase} {end}")
			return strings.TrimSpace(out) == "Pending Pending Pending"
		})
		r.kubectl("uncordon", nodeName)
		r.kubectl("rollout", "status", "deployment", "stays", "--timeout=120s")
	})
}
