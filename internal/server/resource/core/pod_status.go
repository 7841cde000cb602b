package core

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource/check"
	"github.com/millrace/millrace/internal/server/resource/quote"
)

var podStatusPath = field.NewPath("status")

// Conditions of Kubernetes' own components; all others must be qualified names.
var systemConditions = map[corev1.PodConditionType]bool{
	corev1.PodScheduled: true, corev1.PodReady: true, corev1.PodInitialized: true, corev1.ContainersReady: true,
	corev1.DisruptionTarget: true, corev1.PodReadyToStartContainers: true, corev1.PodResizePending: true, corev1.PodResizeInProgress: true,
}

func checkPodStatus(_ context.Context, p, old *corev1.Pod) field.ErrorList {
	errs := podAnnotationsKept(p, old)
	s := &p.Status
	for i := range s.Conditions {
		if c := &s.Conditions[i]; !systemConditions[c.Type] {
			if messages := validation.IsQualifiedName(string(c.Type)); messages != nil {
				errs = append(errs, check.Invalid(podStatusPath.Child("conditions").Index(i).Child("Type"), string(c.Type), messages)...)
			}
		}
	}
	if s.NominatedNodeName != "" {
		if messages := validation.IsDNS1123Subdomain(s.NominatedNodeName); messages != nil {
			errs = append(errs, check.Invalid(podStatusPath.Child("nominatedNodeName"), s.NominatedNodeName, messages)...)
		}
	}
	if s.NominatedNodeName != "" && s.NominatedNodeName != old.Status.NominatedNodeName && old.Spec.NodeName != "" {
		errs = append(errs, field.Forbidden(podStatusPath.Child("nominatedNodeName"), "may not be set on pods that are already bound to a node"))
	}
	if s.ObservedGeneration < 0 {
		errs = append(errs, field.Invalid(podStatusPath.Child("observedGeneration"), s.ObservedGeneration, "must be a non-negative integer"))
	}
	errs = append(errs, podIPs(s)...)
	errs = append(errs, hostIPs(s)...)
	errs = append(errs, endedStayEnded(p, s.ContainerStatuses, old.Status.ContainerStatuses, "containerStatuses")...)
	errs = append(errs, initEndedStayEnded(p, s.InitContainerStatuses, old.Status.InitContainerStatuses)...)
	return append(errs, check.Immutable(s.QOSClass, old.Status.QOSClass, podStatusPath.Child("qosClass"))...)
}

func podIPs(s *corev1.PodStatus) field.ErrorList {
	var errs field.ErrorList
	path := podStatusPath.Child("podIPs")
	seen := map[string]bool{}
	families := map[bool]int{}
	for i, ip := range s.PodIPs {
		if bad := validation.IsValidIPForLegacyField(path.Index(i), ip.IP, true, nil); bad != nil {
			errs = append(errs, bad...)
			continue
		}
		if seen[ip.IP] {
			errs = append(errs, field.Duplicate(path.Index(i), quote.Of(ip)))
		}
		seen[ip.IP] = true
		families[isIPv6(ip.IP)]++
	}
	if len(s.PodIPs) > 2 || families[true] > 1 || families[false] > 1 {
		errs = append(errs, field.Invalid(path, ipList(s.PodIPs), "may specify no more than one IP for each IP family"))
	}
	return errs
}

func ipList(ips []corev1.PodIP) []string {
	var out []string
	for _, ip := range ips {
		out = append(out, ip.IP)
	}
	return out
}

func isIPv6(ip string) bool {
	for i := range len(ip) {
		if ip[i] == ':' {
			return true
		}
	}
	return false
}

func hostIPs(s *corev1.PodStatus) field.ErrorList {
	var errs field.ErrorList
	path := podStatusPath.Child("hostIPs")
	if len(s.HostIPs) > 0 && s.HostIP != s.HostIPs[0].IP {
		errs = append(errs, field.Invalid(path.Index(0).Child("ip"), s.HostIPs[0].IP, "must be equal to `hostIP`"))
	}
	for i, ip := range s.HostIPs {
		errs = append(errs, validation.IsValidIPForLegacyField(path.Index(i), ip.IP, true, nil)...)
	}
	return errs
}

const mayNotRestart = "may not be transitioned to non-terminated state"

// endedStayEnded refuses that a container which must not be restarted runs again.
func endedStayEnded(p *corev1.Pod, now, before []corev1.ContainerStatus, name string) field.ErrorList {
	if p.Spec.RestartPolicy == corev1.RestartPolicyAlways || restartsByRule(p) {
		return nil
	}
	return stayEnded(p, now, before, name, func(corev1.ContainerStatus) bool { return false })
}

func initEndedStayEnded(p *corev1.Pod, now, before []corev1.ContainerStatus) field.ErrorList {
	if p.Spec.RestartPolicy == corev1.RestartPolicyAlways || restartsByRule(p) {
		return nil
	}
	sidecars := map[string]bool{}
	for i := range p.Spec.InitContainers {
		if c := &p.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars[c.Name] = true
		}
	}
	return stayEnded(p, now, before, "initContainerStatuses", func(c corev1.ContainerStatus) bool { return sidecars[c.Name] })
}

// restartsByRule reports whether containers have their own restart policies.
func restartsByRule(p *corev1.Pod) bool {
	for i := range p.Spec.Containers {
		if p.Spec.Containers[i].RestartPolicy != nil {
			return true
		}
	}
	return false
}

func stayEnded(p *corev1.Pod, now, before []corev1.ContainerStatus, name string, mayRestart func(corev1.ContainerStatus) bool) field.ErrorList {
	var errs field.ErrorList
	for _, was := range before {
		t := was.State.Terminated
		if t == nil || mayRestart(was) || t.ExitCode != 0 && p.Spec.RestartPolicy == corev1.RestartPolicyOnFailure {
			continue
		}
		for i := range now {
			if now[i].Name == was.Name && now[i].State.Terminated == nil {
				errs = append(errs, field.Forbidden(podStatusPath.Child(name).Index(i).Child("state"), mayNotRestart))
			}
		}
	}
	return errs
}
