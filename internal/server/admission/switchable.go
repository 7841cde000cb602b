package admission

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource/check"
)

// alwaysAdmit has nothing against anything.
func alwaysAdmit() registry.Admission { return registry.Admission{Name: "AlwaysAdmit"} }

// alwaysDeny refuses everything.
func alwaysDeny() registry.Admission {
	return mutating("AlwaysDeny", func(_ context.Context, c *registry.Change) error {
		return forbidden(c, "admission control is denying all modifications")
	})
}

// podOf is the pod that a change makes or updates as a whole.
func podOf(c *registry.Change) *corev1.Pod {
	if c.View != "" || !is(c, "", "pods") || c.Operation != registry.Create && c.Operation != registry.Update {
		return nil
	}
	pod, _ := c.Object.(*corev1.Pod)
	return pod
}

// limitAntiAffinity lets pods keep others away from their own node only.
func limitAntiAffinity() registry.Admission {
	return validating("LimitPodHardAntiAffinityTopology", func(_ context.Context, c *registry.Change) error {
		pod := podOf(c)
		if pod == nil || pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
			return nil
		}
		for _, t := range pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			if t.TopologyKey != corev1.LabelHostname {
				return apierrors.NewForbidden(c.Kind.GroupResource(), pod.Name, fmt.Errorf(
					"affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey %v but only key %v is allowed", t.TopologyKey, corev1.LabelHostname))
			}
		}
		return nil
	})
}

// container is one of a pod's, and its place.
type container struct {
	image  string
	policy *corev1.PullPolicy
	path   *field.Path
}

// containersOf are all containers of a pod: those that run first, those that stay, and those that were added.
func containersOf(s *corev1.PodSpec) []container {
	var all []container
	add := func(c *corev1.Container, list string, i int) {
		all = append(all, container{c.Image, &c.ImagePullPolicy, field.NewPath("spec", list).Index(i)})
	}
	for i := range s.InitContainers {
		add(&s.InitContainers[i], "initContainers", i)
	}
	for i := range s.Containers {
		add(&s.Containers[i], "containers", i)
	}
	for i := range s.EphemeralContainers {
		add((*corev1.Container)(&s.EphemeralContainers[i].EphemeralContainerCommon), "ephemeralContainers", i)
	}
	return all
}

// alwaysPullImages makes nodes ask for each image anew: who may not pull one cannot use a copy that is there.
func alwaysPullImages() registry.Admission {
	concerned := func(c *registry.Change) *corev1.Pod {
		pod := podOf(c)
		old, update := c.Old.(*corev1.Pod)
		if pod == nil || !update {
			return pod
		}
		known := map[string]bool{}
		for _, o := range containersOf(&old.Spec) {
			known[o.image] = true
		}
		if !slices.ContainsFunc(containersOf(&pod.Spec), func(n container) bool { return !known[n.image] }) {
			return nil
		}
		return pod
	}
	return registry.Admission{Name: "AlwaysPullImages",
		Mutate: func(_ context.Context, c *registry.Change) error {
			pod := concerned(c)
			if pod == nil {
				return nil
			}
			for _, one := range containersOf(&pod.Spec) {
				*one.policy = corev1.PullAlways
			}
			for _, v := range pod.Spec.Volumes {
				if v.Image != nil {
					v.Image.PullPolicy = corev1.PullAlways
				}
			}
			return nil
		},
		Validate: func(_ context.Context, c *registry.Change) error {
			pod := concerned(c)
			if pod == nil {
				return nil
			}
			var errs []error
			want := func(p corev1.PullPolicy, at *field.Path) {
				if p != corev1.PullAlways {
					errs = append(errs, forbidden(c, "%w", field.NotSupported(at, p, []corev1.PullPolicy{corev1.PullAlways})))
				}
			}
			for _, one := range containersOf(&pod.Spec) {
				want(*one.policy, one.path.Child("imagePullPolicy"))
			}
			for i, v := range pod.Spec.Volumes {
				if v.Image != nil {
					want(v.Image.PullPolicy, field.NewPath("spec", "volumes").Index(i).Child("image", "pullPolicy"))
				}
			}
			return utilerrors.NewAggregate(errs)
		},
	}
}

// extendedResourceToleration lets pods onto the nodes that are kept for the resources that they ask for.
func extendedResourceToleration() registry.Admission {
	return mutating("ExtendedResourceToleration", func(_ context.Context, c *registry.Change) error {
		pod := podOf(c)
		if pod == nil {
			return nil
		}
		asked := map[string]bool{}
		for _, all := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for _, one := range all {
				for name := range one.Resources.Requests {
					if check.IsExtendedResource(string(name)) {
						asked[string(name)] = true
					}
				}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(asked)) {
			addToleration(pod, corev1.Toleration{Key: name, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
		}
		return nil
	})
}

// addToleration adds a toleration, or replaces the one of the same taint.
func addToleration(pod *corev1.Pod, t corev1.Toleration) {
	for i := range pod.Spec.Tolerations {
		if pod.Spec.Tolerations[i].MatchToleration(&t) {
			pod.Spec.Tolerations[i] = t
			return
		}
	}
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, t)
}

// denyExternalIPs lets services keep the addresses that they have, and get no new ones.
func denyExternalIPs() registry.Admission {
	return validating("DenyServiceExternalIPs", func(_ context.Context, c *registry.Change) error {
		if !is(c, "", "services") || c.View != "" || c.Operation != registry.Create && c.Operation != registry.Update {
			return nil
		}
		var known []string
		if old, ok := c.Old.(*corev1.Service); ok {
			known = old.Spec.ExternalIPs
		}
		if slices.ContainsFunc(c.Object.(*corev1.Service).Spec.ExternalIPs, func(ip string) bool { return !slices.Contains(known, ip) }) {
			return forbidden(c, "Use of external IPs is denied by admission control")
		}
		return nil
	})
}
