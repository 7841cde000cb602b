package cri

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/millrace/millrace/internal/kubelet/container"
)

// restricted returns a pod as the level restricted wants it: with an init container, a container and an ephemeral
// container.
func restricted() *corev1.Pod {
	security := func() *corev1.SecurityContext {
		return &corev1.SecurityContext{AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "uid"}, Spec: corev1.PodSpec{
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: new(true), RunAsUser: new(int64(1000)), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		InitContainers: []corev1.Container{{Name: "i", SecurityContext: security()}},
		Containers:     []corev1.Container{{Name: "c", SecurityContext: security()}},
		EphemeralContainers: []corev1.EphemeralContainer{
			{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", SecurityContext: security()}},
		},
	}}
}

// containersOf returns all containers of a pod as the kubelet makes them.
func containersOf(pod *corev1.Pod) []*corev1.Container {
	var all []*corev1.Container
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			all = append(all, &list[i])
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		all = append(all, (*corev1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	return all
}

// asked is what a runtime is asked for a pod and one of its containers.
type asked struct {
	box *runtimeapi.PodSandboxConfig
	own *runtimeapi.LinuxContainerSecurityContext
}

// trusted are the fields on which Pod Security relies: it lets a pod pass because of them, so the runtime must be asked
// for what they say, or the pod refused.
var trusted = []struct {
	name   string
	level  api.Level
	change func(*corev1.Pod)
	holds  func(asked) bool // nil: the pod is refused by a runtime that says nothing of its features
}{
	{"namespaces are the pod's", api.LevelRestricted, nil, func(a asked) bool {
		n := a.own.NamespaceOptions
		return n.Network == runtimeapi.NamespaceMode_POD && n.Ipc == runtimeapi.NamespaceMode_POD && n.Pid != runtimeapi.NamespaceMode_NODE &&
			a.box.Linux.SecurityContext.NamespaceOptions.Network == runtimeapi.NamespaceMode_POD
	}},
	{"nothing is privileged", api.LevelRestricted, nil, func(a asked) bool { return !a.own.Privileged && !a.box.Linux.SecurityContext.Privileged }},
	{"privileges do not grow", api.LevelRestricted, nil, func(a asked) bool { return a.own.NoNewPrivs }},
	{"capabilities are dropped", api.LevelRestricted, nil, func(a asked) bool {
		return slices.Equal(a.own.Capabilities.DropCapabilities, []string{"ALL"}) && len(a.own.Capabilities.AddCapabilities) == 0
	}},
	{"the user is not root", api.LevelRestricted, nil, func(a asked) bool { return a.own.RunAsUser.GetValue() == 1000 }},
	{"the pod's seccomp profile is each container's", api.LevelRestricted, nil, func(a asked) bool {
		return a.own.Seccomp.ProfileType == runtimeapi.SecurityProfile_RuntimeDefault && a.box.Linux.SecurityContext.Seccomp.ProfileType == runtimeapi.SecurityProfile_RuntimeDefault
	}},
	{"/proc is masked", api.LevelRestricted, nil, func(a asked) bool {
		return slices.Contains(a.own.MaskedPaths, "/proc/kcore") && slices.Contains(a.own.ReadonlyPaths, "/proc/sys")
	}},
	{"a seccomp profile of the machine stays below its directory", api.LevelRestricted, func(p *corev1.Pod) {
		p.Spec.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: new("../../x")}
	}, func(a asked) bool { return a.own.Seccomp.LocalhostRef == "/profiles/x" }},
	{"an AppArmor profile", api.LevelRestricted, func(p *corev1.Pod) {
		p.Spec.SecurityContext.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	}, func(a asked) bool {
		return a.own.Apparmor.GetProfileType() == runtimeapi.SecurityProfile_RuntimeDefault
	}},
	{"an SELinux type", api.LevelRestricted, func(p *corev1.Pod) {
		p.Spec.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Type: "container_init_t"}
	}, func(a asked) bool { return a.own.SelinuxOptions.GetType() == "container_init_t" }},
	{"a safe sysctl is the pod's", api.LevelRestricted, func(p *corev1.Pod) {
		p.Spec.SecurityContext.Sysctls = []corev1.Sysctl{{Name: "net.ipv4.tcp_syncookies", Value: "1"}}
	}, func(a asked) bool { return a.box.Linux.Sysctls["net.ipv4.tcp_syncookies"] == "1" }},
	{"root with users of its own", api.LevelRestricted, func(p *corev1.Pod) {
		p.Spec.HostUsers, p.Spec.SecurityContext.RunAsNonRoot, p.Spec.SecurityContext.RunAsUser = new(false), nil, new(int64(0))
	}, nil},
	{"all of /proc with users of its own", api.LevelBaseline, func(p *corev1.Pod) {
		p.Spec.HostUsers = new(false)
		for _, c := range containersOf(p) {
			c.SecurityContext.ProcMount = new(corev1.UnmaskedProcMount)
		}
	}, nil},
	{"no groups of the image", api.LevelRestricted, func(p *corev1.Pod) {
		p.Spec.SecurityContext.SupplementalGroupsPolicy = new(corev1.SupplementalGroupsPolicyStrict)
	}, nil},
}

func TestWhatPodSecurityTrustsIsAskedOfTheRuntime(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range trusted {
		t.Run(row.name, func(t *testing.T) {
			pod := restricted()
			if row.change != nil {
				row.change(pod)
			}
			at := api.LevelVersion{Level: row.level, Version: api.LatestVersion()}
			if r := policy.AggregateCheckResults(evaluator.EvaluatePod(at, &pod.ObjectMeta, &pod.Spec)); !r.Allowed {
				t.Fatalf("Pod Security does not let it pass: %s", r.ForbiddenDetail())
			}
			f := newFake(t, fault{})
			r := f.open()
			r.Profiles = "/profiles"
			box := &container.SandboxSpec{Pod: pod}
			if row.holds == nil {
				if _, err := r.RunSandbox(t.Context(), box); err == nil || f.asked("RunPodSandbox") > 0 {
					t.Errorf("the runtime is asked for a sandbox, %v", err)
				}
				return
			}
			for _, c := range containersOf(pod) {
				if !row.holds(asked{r.sandboxConfig(box, nil), r.security(pod, c, nil)}) {
					t.Errorf("container %s does not have it", c.Name)
				}
			}
		})
	}
}
