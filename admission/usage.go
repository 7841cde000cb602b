package admission

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	kinds "github.com/millrace/millrace/resource"
	"github.com/millrace/millrace/resource/podspec"
)

var one = *resource.NewQuantity(1, resource.DecimalSI)

// counted by a plain name, besides the general count/… of every kind.
var counted = map[string]corev1.ResourceName{
	"configmaps": corev1.ResourceConfigMaps, "secrets": corev1.ResourceSecrets, "services": corev1.ResourceServices,
	"persistentvolumeclaims": corev1.ResourcePersistentVolumeClaims, "replicationcontrollers": corev1.ResourceReplicationControllers,
	"resourcequotas": corev1.ResourceQuotas,
}

// usageOf is what an object takes of a quota.
func usageOf(k *kinds.Kind, o kinds.Object) corev1.ResourceList {
	count := "count/" + k.Resource
	if k.Group != "" {
		count += "." + k.Group
	}
	use := corev1.ResourceList{corev1.ResourceName(count): one}
	if k.Group != "" {
		return use
	}
	if name, ok := counted[k.Resource]; ok {
		use[name] = one
	}
	switch o := o.(type) {
	case *corev1.Pod:
		addPodUsage(use, o)
	case *corev1.Service:
		addServiceUsage(use, &o.Spec)
	case *corev1.PersistentVolumeClaim:
		addClaimUsage(use, o)
	}
	return use
}

// addPodUsage adds what a pod takes until it has ended.
func addPodUsage(use corev1.ResourceList, pod *corev1.Pod) {
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return
	}
	use[corev1.ResourcePods] = one
	requests, limits := podTotal(&pod.Spec, requestsOf, anyContainer), podTotal(&pod.Spec, limitsOf, anyContainer)
	for name, q := range pod.Spec.Overhead {
		add(requests, name, q)
		if _, bounded := limits[name]; bounded {
			add(limits, name, q)
		}
	}
	for name, q := range requests {
		if plain(name) {
			use[name] = q
		}
		use["requests."+name] = q
	}
	for name, q := range limits {
		if isCompute(name) {
			use["limits."+name] = q
		}
	}
}

func isCompute(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage
}

// plain resources are counted under their name alone, too.
func plain(name corev1.ResourceName) bool {
	return isCompute(name) || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

func addServiceUsage(use corev1.ResourceList, spec *corev1.ServiceSpec) {
	ports := int64(0)
	switch spec.Type {
	case corev1.ServiceTypeNodePort:
		ports = int64(len(spec.Ports))
	case corev1.ServiceTypeLoadBalancer:
		use[corev1.ResourceServicesLoadBalancers] = one
		ports = int64(len(spec.Ports))
		if gives := spec.AllocateLoadBalancerNodePorts; gives != nil && !*gives {
			ports = 0
			for _, p := range spec.Ports {
				if p.NodePort != 0 {
					ports++
				}
			}
		}
	}
	use[corev1.ResourceServicesNodePorts] = *resource.NewQuantity(ports, resource.DecimalSI)
	if _, balanced := use[corev1.ResourceServicesLoadBalancers]; !balanced {
		use[corev1.ResourceServicesLoadBalancers] = *resource.NewQuantity(0, resource.DecimalSI)
	}
}

const ofClass = ".storageclass.storage.k8s.io/"

func addClaimUsage(use corev1.ResourceList, c *corev1.PersistentVolumeClaim) {
	class := corev1.ResourceName(storageClassOf(c))
	if class != "" {
		use[class+ofClass+"persistentvolumeclaims"] = one
	}
	if size, ok := c.Spec.Resources.Requests[corev1.ResourceStorage]; ok {
		use[corev1.ResourceRequestsStorage] = size
		if class != "" {
			use[class+ofClass+"requests.storage"] = size
		}
	}
}

// mustSpecify are the resources that every container has to name where they are bounded.
var mustSpecify = []corev1.ResourceName{
	corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory,
	corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory,
}

// unspecified says what a quota bounds and which containers do not name it.
func unspecified(pod *corev1.Pod, hard corev1.ResourceList) string {
	var parts []string
	for _, name := range slices.Sorted(slices.Values(mustSpecify)) {
		if _, bounded := hard[name]; !bounded {
			continue
		}
		plainName, of := name, requestsOf
		if rest, ok := strings.CutPrefix(string(name), "limits."); ok {
			plainName, of = corev1.ResourceName(rest), limitsOf
		} else if rest, ok := strings.CutPrefix(string(name), "requests."); ok {
			plainName = corev1.ResourceName(rest)
		}
		if pod.Spec.Resources != nil {
			if _, ok := of(pod.Spec.Resources)[plainName]; ok {
				continue
			}
		}
		if names := containersWithout(&pod.Spec, plainName, of); len(names) > 0 {
			parts = append(parts, string(name)+" for: "+strings.Join(names, ","))
		}
	}
	return strings.Join(parts, "; ")
}

func containersWithout(spec *corev1.PodSpec, name corev1.ResourceName, of func(*corev1.ResourceRequirements) corev1.ResourceList) []string {
	without := map[string]bool{}
	for _, containers := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range containers {
			if _, ok := of(&containers[i].Resources)[name]; !ok {
				without[containers[i].Name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(without))
}

// inScope tells whether a quota is about an object. Scopes are about pods, but for one that is about claims.
func inScope(q *corev1.ResourceQuota, o kinds.Object) bool {
	var all []corev1.ScopedResourceSelectorRequirement
	for _, s := range q.Spec.Scopes {
		all = append(all, corev1.ScopedResourceSelectorRequirement{ScopeName: s, Operator: corev1.ScopeSelectorOpExists})
	}
	if q.Spec.ScopeSelector != nil {
		all = append(all, q.Spec.ScopeSelector.MatchExpressions...)
	}
	for _, s := range all {
		switch o := o.(type) {
		case *corev1.Pod:
			if !podInScope(s, o) {
				return false
			}
		case *corev1.PersistentVolumeClaim:
			if s.ScopeName != corev1.ResourceQuotaScopeVolumeAttributesClass || !valueInScope(s, o.Spec.VolumeAttributesClassName) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

func podInScope(s corev1.ScopedResourceSelectorRequirement, pod *corev1.Pod) bool {
	switch s.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return pod.Spec.ActiveDeadlineSeconds != nil && *pod.Spec.ActiveDeadlineSeconds >= 0
	case corev1.ResourceQuotaScopeNotTerminating:
		return pod.Spec.ActiveDeadlineSeconds == nil
	case corev1.ResourceQuotaScopeBestEffort:
		return podspec.QOSClass(&pod.Spec) == corev1.PodQOSBestEffort
	case corev1.ResourceQuotaScopeNotBestEffort:
		return podspec.QOSClass(&pod.Spec) != corev1.PodQOSBestEffort
	case corev1.ResourceQuotaScopePriorityClass:
		var class *string
		if pod.Spec.PriorityClassName != "" {
			class = &pod.Spec.PriorityClassName
		}
		return valueInScope(s, class)
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return reachesOtherNamespaces(pod.Spec.Affinity)
	}
	return false
}

func valueInScope(s corev1.ScopedResourceSelectorRequirement, value *string) bool {
	there := value != nil
	switch s.Operator {
	case corev1.ScopeSelectorOpExists, "":
		return there
	case corev1.ScopeSelectorOpDoesNotExist:
		return !there
	case corev1.ScopeSelectorOpIn:
		return there && slices.Contains(s.Values, *value)
	case corev1.ScopeSelectorOpNotIn:
		return !there || !slices.Contains(s.Values, *value)
	}
	return false
}

func reachesOtherNamespaces(a *corev1.Affinity) bool {
	if a == nil {
		return false
	}
	var terms []corev1.PodAffinityTerm
	take := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		terms = append(terms, required...)
		for _, p := range preferred {
			terms = append(terms, p.PodAffinityTerm)
		}
	}
	if p := a.PodAffinity; p != nil {
		take(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if p := a.PodAntiAffinity; p != nil {
		take(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return slices.ContainsFunc(terms, func(t corev1.PodAffinityTerm) bool { return len(t.Namespaces) > 0 || t.NamespaceSelector != nil })
}
