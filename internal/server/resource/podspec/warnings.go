package podspec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Labels of nodes that have been renamed.
var renamedNodeLabels = map[string]string{
	"beta.kubernetes.io/arch":                  `deprecated since v1.14; use "kubernetes.io/arch" instead`,
	"beta.kubernetes.io/os":                    `deprecated since v1.14; use "kubernetes.io/os" instead`,
	"failure-domain.beta.kubernetes.io/region": `deprecated since v1.17; use "topology.kubernetes.io/region" instead`,
	"failure-domain.beta.kubernetes.io/zone":   `deprecated since v1.17; use "topology.kubernetes.io/zone" instead`,
	"beta.kubernetes.io/instance-type":         `deprecated since v1.17; use "node.kubernetes.io/instance-type" instead`,
}

// NodeLabelWarning returns a warning for a label of nodes that has been replaced.
func NodeLabelWarning(key string) (string, bool) {
	w, old := renamedNodeLabels[key]
	return w, old
}

// Warnings returns warnings about what is allowed but probably not intended.
func Warnings(s *corev1.PodSpec, annotations map[string]string, spec, meta *field.Path) []string {
	w := warnings{spec: spec, meta: meta}
	w.nodes(s)
	w.spread(s)
	if _, set := annotations[criticalPodAnnotation]; set {
		w.say(meta.Key(criticalPodAnnotation), `non-functional in v1.16+; use the "priorityClassName" field instead`)
	}
	for i := range s.Volumes {
		w.volume(&s.Volumes[i].VolumeSource, i)
	}
	for i := range s.Volumes {
		w.overlaps(&s.Volumes[i])
	}
	w.repetitions(s)
	w.fractions(s.Overhead, corev1.ResourceMemory, func() *field.Path { return spec.Child("overhead") })
	w.fractions(s.Overhead, corev1.ResourceEphemeralStorage, func() *field.Path { return spec.Child("overhead") })
	w.annotations(annotations)
	w.containers(s.InitContainers, "initContainers")
	w.containers(s.Containers, "containers")
	w.ports(s)
	if g := s.TerminationGracePeriodSeconds; g != nil && *g < 0 {
		w.say(spec.Child("terminationGracePeriodSeconds"), "must be >= 0; negative values are invalid and will be treated as 1")
	}
	w.affinity(s.Affinity)
	return w.said
}

const criticalPodAnnotation = "scheduler.alpha.kubernetes.io/critical-pod"

// PodWarnings returns the warnings for a pod that is not made from a template.
func PodWarnings(p *corev1.Pod) []string {
	w := warnings{meta: annotationsPath}
	for _, key := range slices.Sorted(maps.Keys(p.Annotations)) {
		if strings.HasPrefix(key, appArmorAnnotation) {
			w.say(w.meta.Key(key), oldAppArmor)
		}
	}
	if messages := label(p.Name); messages != nil {
		w.said = append(w.said, fmt.Sprintf("metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: %v", messages))
	}
	return append(w.said, Warnings(&p.Spec, p.Annotations, specPath, annotationsPath)...)
}

// TemplateOwnerWarnings returns the warnings for an object with a pod template: whether its pods can be named after it,
// if it is new, and those for the template, if it may have changed.
func TemplateOwnerWarnings[T interface {
	comparable
	metav1.Object
}](now, old T, t *corev1.PodTemplateSpec, path *field.Path) []string {
	var w []string
	var none T
	switch isNew := old == none; {
	case !isNew && now.GetGeneration() == old.GetGeneration():
		return nil
	case isNew:
		if messages := label(now.GetName()); messages != nil {
			w = append(w, fmt.Sprintf("metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: %v", messages))
		}
	}
	if t == nil {
		return w
	}
	return append(w, TemplateWarnings(t, path)...)
}

// warnings collects the warnings for one spec.
type warnings struct {
	spec, meta *field.Path
	said       []string
}

func (w *warnings) say(at *field.Path, format string, args ...any) {
	w.said = append(w.said, at.String()+": "+fmt.Sprintf(format, args...))
}

func (w *warnings) nodes(s *corev1.PodSpec) {
	for _, key := range slices.Sorted(maps.Keys(s.NodeSelector)) {
		if text, old := renamedNodeLabels[key]; old {
			w.say(w.spec.Child("nodeSelector").Key(key), "%s", text)
		}
	}
	if s.Affinity == nil || s.Affinity.NodeAffinity == nil {
		return
	}
	n, at := s.Affinity.NodeAffinity, w.spec.Child("affinity", "nodeAffinity")
	if r := n.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
		for i := range r.NodeSelectorTerms {
			w.nodeTerm(&r.NodeSelectorTerms[i], at.Child("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms").Index(i), false)
		}
	}
	for i := range n.PreferredDuringSchedulingIgnoredDuringExecution {
		w.nodeTerm(&n.PreferredDuringSchedulingIgnoredDuringExecution[i].Preference,
			at.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i).Child("preference"), true)
	}
}

func (w *warnings) nodeTerm(t *corev1.NodeSelectorTerm, at *field.Path, values bool) {
	for i, r := range t.MatchExpressions {
		if text, old := renamedNodeLabels[r.Key]; old {
			w.say(at.Child("matchExpressions").Index(i).Child("key"), "%s is %s", r.Key, text)
		}
		if !values {
			continue
		}
		for j, v := range r.Values {
			for _, m := range labelValue(v) {
				w.say(at.Child("matchExpressions").Index(i).Child("values").Index(j), "%s is invalid, %s", v, m)
			}
		}
	}
}

func (w *warnings) spread(s *corev1.PodSpec) {
	for i := range s.TopologySpreadConstraints {
		t, at := &s.TopologySpreadConstraints[i], w.spec.Child("topologySpreadConstraints").Index(i)
		if text, old := renamedNodeLabels[t.TopologyKey]; old {
			w.say(at.Child("topologyKey"), "%s is %s", t.TopologyKey, text)
		}
		if t.LabelSelector == nil {
			w.say(at.Child("labelSelector"), matchesNothing)
		}
	}
}

const matchesNothing = "a null labelSelector results in matching no pod"

// repetitions warns about duplicates that server-side apply would merge.
func (w *warnings) repetitions(s *corev1.PodSpec) {
	var ips, names seen[string]
	for i := range s.HostAliases {
		if ip := s.HostAliases[i].IP; !ips.add(ip) {
			w.say(w.spec.Child("hostAliases").Index(i).Child("ip"), "duplicate ip %q", ip)
		}
	}
	for i := range s.ImagePullSecrets {
		if name := s.ImagePullSecrets[i].Name; !names.add(name) {
			w.say(w.spec.Child("imagePullSecrets").Index(i).Child("name"), "duplicate name %q", name)
		}
	}
	for i := range s.ImagePullSecrets {
		if name := s.ImagePullSecrets[i].Name; name == "" {
			w.say(w.spec.Child("imagePullSecrets").Index(i).Child("name"), "invalid empty name %q", name)
		}
	}
}

const (
	oldSeccomp  = `non-functional in v1.27+; use the "seccompProfile" field instead`
	oldAppArmor = `deprecated since v1.30; use the "appArmorProfile" field instead`
)

func (w *warnings) annotations(a map[string]string) {
	if len(a) == 0 {
		return
	}
	if _, set := a[seccompPodAnnotation]; set {
		w.say(w.meta.Key(seccompPodAnnotation), oldSeccomp)
	}
	keys := slices.Sorted(maps.Keys(a))
	for _, key := range keys {
		if strings.HasPrefix(key, seccompPrefixAnnotation) {
			w.say(w.meta.Key(key), oldSeccomp)
		}
	}
	if w.spec == specPath {
		return // the warnings for a pod's own metadata have been added already
	}
	for _, key := range keys {
		if strings.HasPrefix(key, appArmorAnnotation) {
			w.say(w.meta.Key(key), oldAppArmor)
		}
	}
}

func (w *warnings) affinity(a *corev1.Affinity) {
	if a == nil {
		return
	}
	if n := a.PodAffinity; n != nil {
		w.podTerms(n.RequiredDuringSchedulingIgnoredDuringExecution, n.PreferredDuringSchedulingIgnoredDuringExecution, "podAffinity")
	}
	if n := a.PodAntiAffinity; n != nil {
		w.podTerms(n.RequiredDuringSchedulingIgnoredDuringExecution, n.PreferredDuringSchedulingIgnoredDuringExecution, "podAntiAffinity")
	}
}

func (w *warnings) podTerms(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, name string) {
	at := w.spec.Child("affinity", name)
	for i := range required {
		if required[i].LabelSelector == nil {
			w.say(at.Child("requiredDuringSchedulingIgnoredDuringExecution").Index(i).Child("labelSelector"), matchesNothing)
		}
	}
	for i := range preferred {
		if preferred[i].PodAffinityTerm.LabelSelector == nil {
			w.say(at.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i).Child("podAffinityTerm", "labelSelector"), matchesNothing)
		}
	}
}

// TemplateWarnings returns the warnings for a pod template.
func TemplateWarnings(t *corev1.PodTemplateSpec, path *field.Path) []string {
	return Warnings(&t.Spec, t.Annotations, path.Child("spec"), path.Child("metadata", "annotations"))
}
