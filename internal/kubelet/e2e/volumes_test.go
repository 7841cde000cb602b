//go:build linux

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// volumes of every sort are there, and changes reach those who run.
func volumes(t *testing.T, c *cluster) {
	r := c.room(t, "volumes")
	host := c.t.TempDir() // the pod mounts it to its end
	r.apply(`apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {colour: red, shape: round}
---
apiVersion: v1
kind: Secret
metadata: {name: password}
stringData: {word: open}
---
apiVersion: v1
kind: Service
metadata: {name: my-db}
spec: {ports: [{port: 5432}]}
`)
	r.pod("full", "echo $COLOUR $WORD $PREFIX_shape $MY_DB_SERVICE_PORT $NODE $CPU $ALL >/host/env; "+rests,
		"    env:",
		"    - {name: COLOUR, valueFrom: {configMapKeyRef: {name: settings, key: colour}}}",
		"    - {name: WORD, valueFrom: {secretKeyRef: {name: password, key: word}}}",
		"    - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}",
		"    - {name: CPU, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1m}}}",
		"    - {name: ALL, value: '$(COLOUR)-$(WORD)'}",
		"    envFrom: [{configMapRef: {name: settings}, prefix: PREFIX_}]",
		"    resources: {limits: {cpu: 250m, memory: 32Mi}, requests: {cpu: 100m, memory: 16Mi}}",
		"    volumeMounts:",
		"    - {name: settings, mountPath: /settings}",
		"    - {name: settings, mountPath: /one, subPath: shape}",
		"    - {name: password, mountPath: /password}",
		"    - {name: all, mountPath: /all}",
		"    - {name: labels, mountPath: /labels}",
		"    - {name: scratch, mountPath: /scratch}",
		"    - {name: memory, mountPath: /memory}",
		"    - {name: host, mountPath: /host}",
		"  volumes:",
		"  - {name: settings, configMap: {name: settings}}",
		"  - {name: password, secret: {secretName: password, defaultMode: 0400}}",
		"  - {name: all, projected: {sources: [{secret: {name: password}}, {configMap: {name: settings, items: [{key: shape, path: below/shape}]}}, {serviceAccountToken: {path: token, audience: me, expirationSeconds: 600}}, {downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}}]}}",
		"  - {name: labels, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}",
		"  - {name: scratch, emptyDir: {}}",
		"  - {name: memory, emptyDir: {medium: Memory, sizeLimit: 1Mi}}",
		"  - {name: host, hostPath: {path: "+host+", type: Directory}}")
	r.ready("full")
	sh := func(command string) string { t.Helper(); return r.kubectl("exec", "full", "--", "sh", "-c", command) }
	eventually(t, "the environment is as it should be", func() bool {
		text, _ := os.ReadFile(filepath.Join(host, "env"))
		return string(text) == "red open round 5432 real 250 red-open\n"
	})
	for command, want := range map[string]string{
		"cat /settings/colour /one /password/word /all/word /all/below/shape /all/name": "redroundopenopenroundfull",
		"cat /labels/labels":                                                                `app="full"`,
		"touch /scratch/x /memory/x && echo ok":                                             "ok\n",
		"touch /settings/x 2>/dev/null || echo no":                                          "no\n",
		"head -c 2000000 /dev/zero >/memory/big 2>/dev/null || echo full":                   "full\n",
		"cut -d. -f1 /all/token | head -c 2":                                                "ey",
		"test -s /var/run/secrets/kubernetes.io/serviceaccount/ca.crt && echo certificates": "certificates\n",
	} {
		if got := sh(command); got != want {
			t.Errorf("%s printed %q, want %q", command, got, want)
		}
	}
	r.cgroups(t)
	ctx := context.Background()
	if _, err := c.kube.CoreV1().ConfigMaps(r.name).Patch(ctx, "settings", types.MergePatchType, []byte(`{"data":{"colour":"blue"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.kube.CoreV1().Secrets(r.name).Patch(ctx, "password", types.MergePatchType, []byte(`{"stringData":{"word":"shut"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "changes arrive", func() bool { return sh("cat /settings/colour /password/word") == "blueshut" })
	if got := sh("cat /all/word"); got != "shut" {
		t.Errorf("the projection says %q", got)
	}
	r.kubectl("label", "pod", "full", "more=yes")
	eventually(t, "a new label arrives", func() bool { return strings.Contains(sh("cat /labels/labels"), `more="yes"`) })
	// What is missing keeps a pod waiting, and no longer than until it is there.
	r.pod("waits", "cat /later/k; "+rests, "    volumeMounts: [{name: later, mountPath: /later}]", "  volumes: [{name: later, configMap: {name: later}}]")
	r.pod("waits-too", "echo $V; "+rests, "    env: [{name: V, valueFrom: {configMapKeyRef: {name: later, key: k}}}]")
	r.told("waits", "FailedMount", `configmap "later" not found`)
	r.until("waits-too", "waiting", func(s *corev1.PodStatus) bool {
		w := of(s, "main").State.Waiting
		return w != nil && w.Reason == "CreateContainerConfigError" && strings.Contains(w.Message, `configmap "later" not found`)
	})
	r.kubectl("create", "configmap", "later", "--from-literal=k=v")
	r.ready("waits")
	r.ready("waits-too")
}

// cgroups are made as the requests and limits say.
func (r *room) cgroups(t *testing.T) {
	for name, want := range map[string]string{
		"memory/memory.limit_in_bytes memory.max": fmt.Sprint(32 << 20), "cpu/cpu.cfs_quota_us cpu.max": "25000", "cpu/cpu.shares cpu.weight": "",
	} {
		files := strings.Fields(name)
		got := r.kubectl("exec", "full", "--", "sh", "-c", fmt.Sprintf("cat /sys/fs/cgroup/%s 2>/dev/null || cat /sys/fs/cgroup/%s", files[0], files[1]))
		if !strings.Contains(got, want) || got == "" {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// security contexts are obeyed, and what pods leave behind is read.
func security(t *testing.T, c *cluster) {
	r := c.room(t, "security")
	r.apply(podText("user", "id -u; id -g; id -G; grep CapEff /proc/self/status; grep Seccomp: /proc/self/status; touch /x 2>&1; touch /own/x; ls -ln /own | tail -1; "+rests,
		"    securityContext: {runAsUser: 1000, runAsGroup: 2000, readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}",
		"    volumeMounts: [{name: own, mountPath: /own}]",
		"  securityContext: {fsGroup: 3000, supplementalGroups: [4000], seccompProfile: {type: RuntimeDefault}}",
		"  volumes: [{name: own, emptyDir: {}}]"))
	names := "hostname; for n in pid ipc net uts; do echo $n $(readlink /proc/self/ns/$n); done; echo told; " + rests
	r.apply(podText("host", names, "  hostPID: true", "  hostIPC: true", "  hostNetwork: true"))
	r.apply(podText("apart", names))
	r.apply(podText("shared", rests, "  - {name: other, image: '"+image+"', command: [/bin/sh, -c, 'ls /proc | grep -c \"^[0-9]\"; "+strings.ReplaceAll(rests, "'", "''")+"']}", "  shareProcessNamespace: true"))
	r.apply(podText("root", rests, "    securityContext: {runAsNonRoot: true}"))
	r.apply(podText("mapped", "cat /proc/self/uid_map; "+rests, "  hostUsers: false"))
	r.ready("user")
	want := []string{"1000\n2000\n", "3000", "4000", "CapEff:\t0000000000000000", "Seccomp:\t2", "Read-only file system", " 1000 ", " 3000 "}
	eventually(t, "the pod has told", func() bool { return strings.Count(r.kubectl("logs", "user"), "\n") >= 7 })
	for out := r.kubectl("logs", "user"); len(want) > 0; want = want[1:] {
		if !strings.Contains(out, want[0]) {
			t.Errorf("%q is not in %q", want[0], out)
		}
	}
	r.ready("host")
	if p := r.get("host"); p.Status.PodIP != p.Status.HostIP {
		t.Errorf("on the node's network the pod has %s, the node %s", p.Status.PodIP, p.Status.HostIP)
	}
	r.namespaces()
	r.ready("shared")
	r.until("root", "refused", func(s *corev1.PodStatus) bool {
		w := of(s, "main").State.Waiting
		return w != nil && w.Reason == "CreateContainerConfigError" && strings.Contains(w.Message, "image will run as root")
	})
	r.mapped()
	if got := r.kubectl("exec", "apart", "--", "grep", "serviceaccount", "/proc/mounts"); !strings.HasPrefix(got, "tmpfs ") {
		t.Errorf("the pod's token is on a disk: %q", got)
	}
}

// mapped checks the pod that must have users of its own: it has them, or it is refused because the runtime has none to
// give.
func (r *room) mapped() {
	pod := r.get("mapped")
	if len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].ContainerID != "" {
		if users := strings.Fields(r.kubectl("logs", "mapped")); len(users) != 3 || users[1] == "0" {
			r.t.Errorf("root of the pod is a user of the machine: %v", users)
		}
		return
	}
	r.told("mapped", "FailedCreatePodSandBox", "cannot have a user namespace")
	r.kubectl("delete", "pod", "mapped") // it would be tried, and told of, for as long as it is there
}

// namespaces are the node's where a pod asks for them, and its own where it does not.
func (r *room) namespaces() {
	said := func(name string) (out string) {
		r.ready(name)
		eventually(r.t, "pod "+name+" has told", func() bool { out = r.kubectl("logs", name); return strings.Contains(out, "told") })
		return out
	}
	host, apart := said("host"), said("apart")
	for _, kind := range []string{"pid", "ipc", "net", "uts"} {
		own, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			r.t.Fatal(err)
		}
		if !strings.Contains(host, own) {
			r.t.Errorf("the node's names are %s, the pod said %q", own, host)
		}
		if strings.Contains(apart, own) {
			r.t.Errorf("a pod that did not ask for it is in the node's %s: %q", own, apart)
		}
	}
	if name, err := os.Hostname(); err != nil || !strings.HasPrefix(host, name+"\n") || !strings.HasPrefix(apart, "apart\n") {
		r.t.Errorf("on %s the names are %q and %q", name, host, apart)
	}
}

// ends are told: messages, deadlines, codes.
func ends(t *testing.T, c *cluster) {
	r := c.room(t, "ends")
	r.apply(podText("message", "echo in the file >/dev/termination-log; exit 3", "  restartPolicy: Never"))
	r.apply(podText("log", "echo in the log; exit 4", "    terminationMessagePolicy: FallbackToLogsOnError", "  restartPolicy: Never"))
	r.apply(podText("deadline", rests, "  activeDeadlineSeconds: 2"))
	r.apply(podText("memory", "head -c 100000000 /dev/zero | tail", "    resources: {limits: {memory: 8Mi}}", "  restartPolicy: Never"))
	for name, want := range map[string]string{"message": "3 in the file\n", "log": "4 in the log\n"} {
		p := r.until(name, "failed", in(corev1.PodFailed))
		if e := of(&p.Status, "main").State.Terminated; e == nil || fmt.Sprintf("%d %s", e.ExitCode, e.Message) != want {
			t.Errorf("%s ended as %+v", name, e)
		}
	}
	if p := r.until("deadline", "failed", in(corev1.PodFailed)); p.Status.Reason != "DeadlineExceeded" {
		t.Errorf("after its deadline the pod is %+v", p.Status)
	}
	p := r.until("memory", "failed", in(corev1.PodFailed))
	if e := of(&p.Status, "main").State.Terminated; e == nil || e.ExitCode != 137 && e.Reason != "OOMKilled" {
		t.Errorf("who took too much memory ended as %+v", e)
	}
	r.apply(podText("stores", "head -c 3000000 /dev/zero >/big; "+rests, "    resources: {limits: {ephemeral-storage: 1Mi}}"))
	r.apply(podText("stores-all", "head -c 3000000 /dev/zero >/own/big; "+rests, "    resources: {limits: {ephemeral-storage: 1Mi}}",
		"    volumeMounts: [{name: own, mountPath: /own}]", "  volumes: [{name: own, emptyDir: {}}]"))
	defer func() {
		for name, want := range map[string]string{
			"stores":     `Container main exceeded its local ephemeral storage limit "1Mi". `,
			"stores-all": "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. ",
		} {
			if p := r.until(name, "evicted", in(corev1.PodFailed)); p.Status.Reason != "Evicted" || p.Status.Message != want {
				t.Errorf("%s was told %s: %s", name, p.Status.Reason, p.Status.Message)
			}
		}
	}()
	// An emptyDir that outgrows its limit costs the pod its life.
	r.apply(podText("greedy", "head -c 3000000 /dev/zero >/own/big; "+rests, "    volumeMounts: [{name: own, mountPath: /own}]", "  volumes: [{name: own, emptyDir: {sizeLimit: 1Mi}}]"))
	p = r.until("greedy", "evicted", in(corev1.PodFailed))
	if p.Status.Reason != "Evicted" || !strings.Contains(p.Status.Message, `EmptyDir volume "own" exceeds the limit "1Mi"`) {
		t.Errorf("it was told %s: %s", p.Status.Reason, p.Status.Message)
	}
}

// images are there, or are told to be missing in the words that people know.
func images(t *testing.T, c *cluster) {
	r := c.room(t, "images")
	missing := "127.0.0.1:1/missing:1" // nobody listens there
	waiting := func(name string, reasons ...string) {
		t.Helper()
		for _, reason := range reasons {
			r.until(name, reason, func(s *corev1.PodStatus) bool {
				w := of(s, "main").State.Waiting
				return w != nil && w.Reason == reason
			})
		}
	}
	with := func(image string) string { return strings.ReplaceAll(podText("IT", rests), "localhost/box:1", image) }
	r.apply(strings.ReplaceAll(with(missing), "IT", "missing"))
	r.apply(strings.ReplaceAll(strings.ReplaceAll(with("localhost/none:1"), "IT", "never"), "  containers:\n  - name: main\n", "  containers:\n  - name: main\n    imagePullPolicy: Never\n"))
	r.apply(strings.ReplaceAll(with("Not/An:Image!"), "IT", "invalid"))
	waiting("missing", "ErrImagePull", "ImagePullBackOff")
	waiting("never", "ErrImageNeverPull")
	waiting("invalid", "InvalidImageName")
	r.told("missing", "BackOff", "Back-off pulling image")
	r.told("missing", "Failed", "Error: ErrImagePull")
	r.told("missing", "Pulling", missing)
	// Another image in place is another container in the same pod.
	r.pod("moves", rests)
	before := r.ready("moves")
	r.kubectl("set", "image", "pod/moves", "main=localhost/box:2")
	after := r.until("moves", "of the other image", func(s *corev1.PodStatus) bool {
		m := of(s, "main")
		return m.Image == "localhost/box:2" && m.State.Running != nil
	})
	if after.UID != before.UID || of(&after.Status, "main").RestartCount != 1 || after.Status.PodIP != before.Status.PodIP {
		t.Errorf("the container is %+v", of(&after.Status, "main"))
	}
	r.kubectl("delete", "pod", "missing", "never", "invalid") // which must not wait for anything
}
