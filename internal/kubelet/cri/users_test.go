package cri

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/kubelet/container"
)

func TestAPodWithUsersOfItsOwnNeverRunsAsUsersOfTheMachine(t *testing.T) {
	f := newFake(t, fault{})
	r := f.open()
	unmasked := corev1.UnmaskedProcMount
	pod := &corev1.Pod{Spec: corev1.PodSpec{HostUsers: new(false), Containers: []corev1.Container{
		{Name: "c", SecurityContext: &corev1.SecurityContext{ProcMount: &unmasked}},
	}}}
	box := &container.SandboxSpec{Pod: pod}
	if _, err := r.RunSandbox(t.Context(), box); err == nil {
		t.Error("a sandbox was made")
	}
	if _, err := r.Create(t.Context(), "box", &container.Spec{Pod: pod, Container: &pod.Spec.Containers[0], Sandbox: box}); err == nil {
		t.Error("a container was made in a sandbox that is there")
	}
	if f.asked("RunPodSandbox")+f.asked("CreateContainer") > 0 {
		t.Error("the runtime was asked")
	}
}
