package core

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/podspec"
	"github.com/millrace/millrace/internal/server/resource/quote"
)

// checkEphemeralUpdate allows that ephemeral containers are added, but neither changed nor removed.
func checkEphemeralUpdate(ctx context.Context, p, old *corev1.Pod) field.ErrorList {
	errs := podspec.Validate(p, podspec.OptionsFrom(ctx))
	if _, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return append(errs, field.Forbidden(field.NewPath(""), "static pods do not support ephemeral containers"))
	}
	path := podSpecPath.Child("ephemeralContainers")
	for i := range old.Spec.EphemeralContainers {
		was := &old.Spec.EphemeralContainers[i]
		now := ephemeralNamed(p, was.Name)
		switch {
		case now == nil:
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("existing ephemeral containers %q may not be removed\n", was.Name)))
		case !equality.Semantic.DeepEqual(now, was):
			changes := diff.Diff(quote.Of(now), quote.Of(was))
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("existing ephemeral containers %q may not be changed\n%v", was.Name, changes)))
		}
	}
	return errs
}

func ephemeralNamed(p *corev1.Pod, name string) *corev1.EphemeralContainer {
	for i := range p.Spec.EphemeralContainers {
		if p.Spec.EphemeralContainers[i].Name == name {
			return &p.Spec.EphemeralContainers[i]
		}
	}
	return nil
}

var resizeRules = resource.Rules[*corev1.Pod]{
	PrepareUpdate:  prepareResize,
	ValidateUpdate: checkResize,
}

// prepareResize reverts everything in an update but the resources of existing containers.
func prepareResize(_ context.Context, p, old *corev1.Pod) {
	wanted := p.Spec.DeepCopy()
	restorePod(p, old)
	resizeContainers(p.Spec.Containers, wanted.Containers)
	resizeContainers(p.Spec.InitContainers, wanted.InitContainers)
}

func resizeContainers(to, from []corev1.Container) {
	for i := range to {
		for j := range from {
			if to[i].Name == from[j].Name {
				to[i].Resources = from[j].Resources
				to[i].ResizePolicy = from[j].ResizePolicy
			}
		}
	}
}

func checkResize(ctx context.Context, p, old *corev1.Pod) field.ErrorList {
	errs := podspec.Validate(p, podspec.OptionsFrom(ctx))
	if _, mirror := old.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return append(errs, field.Forbidden(field.NewPath(""), "static pods cannot be resized"))
	}
	if p.Spec.OS != nil && p.Spec.OS.Name == corev1.Windows {
		return append(errs, field.Forbidden(field.NewPath(""), "windows pods cannot be resized"))
	}
	if demand.QOSClass(&p.Spec) != demand.QOSClass(&old.Spec) {
		errs = append(errs, field.Invalid(podSpecPath, demand.QOSClass(&old.Spec), "Pod QOS Class may not change as a result of resizing"))
	}
	errs = append(errs, checkResized(p.Spec.Containers, old.Spec.Containers, "containers")...)
	errs = append(errs, checkResized(p.Spec.InitContainers, old.Spec.InitContainers, "initContainers")...)
	rest := p.Spec.DeepCopy()
	takeBackCompute(rest.Containers, old.Spec.Containers)
	takeBackCompute(rest.InitContainers, old.Spec.InitContainers)
	if !equality.Semantic.DeepEqual(rest, &old.Spec) {
		errs = append(errs, field.Forbidden(podSpecPath, "only cpu and memory resources are mutable"))
	}
	return errs
}

var resizable = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// checkResized refuses to remove requests and limits.
func checkResized(now, before []corev1.Container, name string) field.ErrorList {
	var errs field.ErrorList
	for i := range now {
		path := podSpecPath.Child(name).Index(i).Child("resources")
		sidecar := now[i].RestartPolicy != nil && *now[i].RestartPolicy == corev1.ContainerRestartPolicyAlways
		if name == "initContainers" && !sidecar && !equality.Semantic.DeepEqual(now[i].Resources, before[i].Resources) {
			errs = append(errs, field.Forbidden(path, "only sidecar containers can be resized"))
			continue
		}
		for _, r := range resizable {
			if _, was := before[i].Resources.Limits[r]; was {
				if _, is := now[i].Resources.Limits[r]; !is {
					errs = append(errs, field.Forbidden(path.Child("limits"), "resource limits cannot be removed"))
				}
			}
			if _, was := before[i].Resources.Requests[r]; was {
				if _, is := now[i].Resources.Requests[r]; !is {
					errs = append(errs, field.Forbidden(path.Child("requests"), "resource requests cannot be removed"))
				}
			}
		}
	}
	return errs
}

func takeBackCompute(now, before []corev1.Container) {
	for i := range now {
		takeBack(&now[i].Resources.Limits, before[i].Resources.Limits)
		takeBack(&now[i].Resources.Requests, before[i].Resources.Requests)
	}
}

func takeBack(now *corev1.ResourceList, before corev1.ResourceList) {
	for _, name := range resizable {
		q, was := before[name]
		switch {
		case !was:
			delete(*now, name)
		case *now == nil:
			*now = corev1.ResourceList{name: q}
		default:
			(*now)[name] = q
		}
	}
}
