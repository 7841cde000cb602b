package cri

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestAContainerHasTheProfilesThatItNames(t *testing.T) {
	mine := "mine"
	seccomp := func(kind corev1.SeccompProfileType) *corev1.SeccompProfile {
		return &corev1.SeccompProfile{Type: kind, LocalhostProfile: &mine}
	}
	armor := func(kind corev1.AppArmorProfileType) *corev1.AppArmorProfile {
		return &corev1.AppArmorProfile{Type: kind, LocalhostProfile: &mine}
	}
	for _, c := range []struct {
		name             string
		byDefault        bool
		pod, own         corev1.SecurityContext
		seccomp, armored string
	}{
		{name: "none", seccomp: "Unconfined ", armored: "none"},
		{name: "none, with a default", byDefault: true, seccomp: "RuntimeDefault ", armored: "none"},
		{
			name: "of the pod", byDefault: true, pod: corev1.SecurityContext{SeccompProfile: seccomp("Unconfined"), AppArmorProfile: armor("RuntimeDefault")},
			seccomp: "Unconfined ", armored: "RuntimeDefault ",
		},
		{
			name: "of the container", pod: corev1.SecurityContext{SeccompProfile: seccomp("RuntimeDefault"), AppArmorProfile: armor("Unconfined")},
			own: corev1.SecurityContext{SeccompProfile: seccomp("Localhost"), AppArmorProfile: armor("Localhost")}, seccomp: "Localhost /profiles/mine", armored: "Localhost mine",
		},
		{name: "unconfined", own: corev1.SecurityContext{AppArmorProfile: armor("Unconfined")}, seccomp: "Unconfined ", armored: "Unconfined "},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &Runtime{Options: Options{SeccompDefault: c.byDefault, Profiles: "/profiles"}}
			pod := &corev1.Pod{Spec: corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{SeccompProfile: c.pod.SeccompProfile, AppArmorProfile: c.pod.AppArmorProfile}}}
			s := r.security(pod, &corev1.Container{SecurityContext: &c.own}, nil)
			said := func(p *runtimeapi.SecurityProfile) string {
				if p == nil {
					return "none"
				}
				return fmt.Sprint(p.ProfileType, " ", p.LocalhostRef)
			}
			if got := said(s.Seccomp); got != c.seccomp {
				t.Errorf("seccomp is %q, want %q", got, c.seccomp)
			}
			if got := said(s.Apparmor); got != c.armored {
				t.Errorf("AppArmor is %q, want %q", got, c.armored)
			}
		})
	}
}

func TestLimitsOfCPUTimeNeedNotBeEnforced(t *testing.T) {
	c := &corev1.Container{}
	c.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
	for _, without := range []bool{false, true} {
		got := (&Runtime{Options: Options{NoCPUQuota: without, CPUPeriod: defaultPeriod}}).resources(&corev1.Pod{}, c)
		if (got.CpuQuota == 0) != without || got.CpuShares != 2048 {
			t.Errorf("without quota: %v: %v", without, got)
		}
	}
}

func TestLimitsFollowTheOptions(t *testing.T) {
	c := &corev1.Container{}
	c.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
	got := (&Runtime{Options: Options{CPUPeriod: 20 * time.Millisecond, PIDs: 64}}).resources(&corev1.Pod{}, c)
	if got.CpuPeriod != 20_000 || got.CpuQuota != 40_000 {
		t.Errorf("the quota is %d in %d µs", got.CpuQuota, got.CpuPeriod)
	}
	if limit := got.Unified["pids.max"]; unified() != (limit == "64") {
		t.Errorf("the limit of processes is %q", limit)
	}
}
