//go:build linux

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// smallDisk is how large the disk is that the node of TestRealShortages has.
const smallDisk = 32 << 20

// TestRealShortages runs real containers on a node that is short of everything.
func TestRealShortages(t *testing.T) {
	socket(t)
	c := newCluster(t, func(c *cluster) {
		disk := filepath.Join(c.directory, "kubelet")
		if err := os.Mkdir(disk, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("tmpfs", disk, "tmpfs", 0, fmt.Sprintf("size=%d", smallDisk)); err != nil {
			t.Skipf("no file system of its own can be mounted: %v", err)
		}
		t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	})
	r := c.room(t, "short")
	t.Run("the disk is full", func(t *testing.T) { r.in(t).fullDisk() })
	setup(t, "image", "localhost/unused:1")
	c.node.end(syscall.SIGTERM)
	c.startNode("--eviction-hard", "nodefs.available<8Mi", "--eviction-pressure-transition-period", "15s", "--max-pods", "4",
		"--image-gc-high-threshold", "1", "--image-gc-low-threshold", "1", "--minimum-image-ttl-duration", "1s")
	t.Run("the disk is short", func(t *testing.T) { r.in(t).diskPressure() })
	t.Run("there are too many pods", func(t *testing.T) { r.in(t).tooMany() })
	t.Run("images are in the way", func(t *testing.T) { r.in(t).collected() })
	c.node.end(syscall.SIGTERM)
	c.startNode("--eviction-hard", "memory.available<1Ei") // nobody has as much
	t.Run("memory is short", func(t *testing.T) { r.in(t).memoryPressure() })
	c.node.end(syscall.SIGTERM)
	c.startNode()
}

func setup(t *testing.T, args ...string) {
	t.Helper()
	if text, err := exec.Command("./setup.sh", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

// fullDisk: what cannot be made is told, and made once there is room. What runs goes on.
func (r *room) fullDisk() {
	r.pod("stays", rests)
	before := r.ready("stays")
	filler := filepath.Join(r.directory, "kubelet", "filler")
	if err := os.WriteFile(filler, make([]byte, smallDisk), 0o600); err == nil {
		r.t.Fatal("the disk is larger than it should be")
	}
	r.kubectl("create", "configmap", "words", "--from-literal=k="+strings.Repeat("word ", 4000))
	r.pod("late", rests, "    volumeMounts: [{name: words, mountPath: /words}]", "  volumes: [{name: words, configMap: {name: words}}]")
	r.told("late", "FailedMount", "no space left on device")
	if s := r.get("late").Status; s.Phase != corev1.PodPending {
		r.t.Errorf("without room the pod is %+v", s)
	}
	if err := os.Remove(filler); err != nil {
		r.t.Error(err)
	}
	r.ready("late")
	r.same(before)
}

// same checks that a pod runs as it did.
func (r *room) same(before *corev1.Pod) {
	r.t.Helper()
	now := r.get(before.Name)
	if a, b := of(&before.Status, "main"), of(&now.Status, "main"); now.UID != before.UID || a.ContainerID != b.ContainerID || b.State.Running == nil {
		r.t.Errorf("pod %s has %+v, before it had %+v", before.Name, b, a)
	}
}

var diskWords = regexp.MustCompile(`^The node was low on resource: ephemeral-storage\. Threshold quantity: 8Mi, available: \d+Ki\. `)

// diskPressure: who takes the most is evicted, the others stay, and nobody new comes before there is room for a while.
func (r *room) diskPressure() {
	t := r.t
	before := r.ready("stays")
	r.pod("greedy", "head -c 27000000 /dev/zero >/own/big; "+rests, "    volumeMounts: [{name: own, mountPath: /own}]", "  volumes: [{name: own, emptyDir: {}}]")
	p := r.until("greedy", "evicted", in(corev1.PodFailed))
	if p.Status.Reason != "Evicted" || !diskWords.MatchString(p.Status.Message) {
		t.Errorf("it was told %s: %s", p.Status.Reason, p.Status.Message)
	}
	if condition(&p.Status, corev1.DisruptionTarget) != corev1.ConditionTrue {
		t.Errorf("its conditions are %+v", p.Status.Conditions)
	}
	r.told("greedy", "Evicted", "The node was low on resource: ephemeral-storage")
	eventually(t, "the node says so", func() bool { return r.says(corev1.NodeDiskPressure, "KubeletHasDiskPressure") })
	eventually(t, "the node is tainted", func() bool { return r.tainted(corev1.TaintNodeDiskPressure) })
	r.pod("refused", rests, "  nodeName: "+nodeName)
	if p := r.until("refused", "refused", in(corev1.PodFailed)); p.Status.Reason != "Evicted" || p.Status.Message != "Pod was rejected: The node had condition: [DiskPressure]. " {
		t.Errorf("it was told %s: %q", p.Status.Reason, p.Status.Message)
	}
	eventually(t, "the node has room again", func() bool {
		return r.says(corev1.NodeDiskPressure, "KubeletHasNoDiskPressure") && !r.tainted(corev1.TaintNodeDiskPressure)
	})
	r.same(before)
	for _, reason := range []string{"EvictionThresholdMet", "NodeHasDiskPressure", "NodeHasNoDiskPressure"} {
		eventually(t, "the node tells "+reason, func() bool {
			return strings.Contains(r.kubectl("get", "events", "-n", "default", "--field-selector", "involvedObject.name="+nodeName, "-o", "jsonpath={.items[*].reason}"), reason)
		})
	}
	r.kubectl("delete", "pod", "greedy", "refused")
}

func (c *cluster) self() *corev1.Node {
	n, err := c.kube.CoreV1().Nodes().Get(context.Background(), nodeName, metav1.GetOptions{})
	if err != nil {
		return &corev1.Node{}
	}
	return n
}

// says reports whether one of the node's conditions has a reason.
func (c *cluster) says(kind corev1.NodeConditionType, reason string) bool {
	for _, condition := range c.self().Status.Conditions {
		if condition.Type == kind {
			return condition.Reason == reason
		}
	}
	return false
}

func (c *cluster) tainted(key string) bool {
	for _, taint := range c.self().Spec.Taints {
		if taint.Key == key && taint.Effect == corev1.TaintEffectNoSchedule {
			return true
		}
	}
	return false
}

// tooMany: the node takes no more pods than it says, whoever sends them.
func (r *room) tooMany() {
	for _, name := range []string{"third", "fourth"} {
		r.pod(name, rests)
		r.ready(name)
	}
	r.pod("bound", rests, "  nodeName: "+nodeName)
	p := r.until("bound", "refused", in(corev1.PodFailed))
	if want := "Pod was rejected: Node didn't have enough resource: pods, requested: 1, used: 4, capacity: 4"; p.Status.Reason != "OutOfpods" || p.Status.Message != want {
		r.t.Errorf("it was told %s: %s", p.Status.Reason, p.Status.Message)
	}
	r.pod("free", rests)
	r.told("free", "FailedScheduling", "Too many pods")
	r.kubectl("delete", "pod", "bound", "third")
	r.ready("free")
	r.kubectl("delete", "pod", "free", "fourth")
}

// collected: images that nothing uses go when the disk is too full, and others stay.
func (r *room) collected() {
	images := openCRI(r.t)
	has := func(name string) bool {
		ref, err := images.Find(context.Background(), name)
		if err != nil {
			r.t.Fatal(err)
		}
		return ref != ""
	}
	eventually(r.t, "an image that nothing uses is gone", func() bool { return !has("localhost/unused:1") })
	if !has(image) || !has("localhost/pause:1") {
		r.t.Error("an image that is used is gone")
	}
}

var memoryWords = regexp.MustCompile(`^The node was low on resource: memory\. Threshold quantity: 1Ei, available: \d+Ki\. Container main was using \d+Ki, request is 0, has larger consumption of memory\. $`)

// memoryPressure: who uses more than it asked for goes first.
func (r *room) memoryPressure() {
	t := r.t
	eventually(t, "the node says so", func() bool { return r.says(corev1.NodeMemoryPressure, "KubeletHasInsufficientMemory") })
	eventually(t, "the node is tainted", func() bool { return r.tainted(corev1.TaintNodeMemoryPressure) })
	for _, name := range []string{"stays", "late"} { // one after the other
		p := r.until(name, "evicted", in(corev1.PodFailed))
		if p.Status.Reason != "Evicted" || !memoryWords.MatchString(p.Status.Message) {
			t.Errorf("%s was told %s: %s", name, p.Status.Reason, p.Status.Message)
		}
	}
}
