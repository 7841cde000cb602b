package core

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource/alike"
	"github.com/millrace/millrace/internal/server/resource/podspec"
	"github.com/millrace/millrace/internal/server/resource/quote"
)

var podSpecPath = field.NewPath("spec")

// checkPodUpdate allows changes of only a few fields of a pod.
func checkPodUpdate(ctx context.Context, p, old *corev1.Pod) field.ErrorList {
	errs := podAnnotationsKept(p, old)
	unchanged := alike.Equal(&p.Spec, &old.Spec)
	if !unchanged || !maps.Equal(p.Annotations, old.Annotations) {
		errs = append(errs, podspec.Validate(p, podspec.OptionsFrom(ctx))...)
	}
	more, same := sameContainers(p.Spec.Containers, old.Spec.Containers, "containers")
	initMore, initSame := sameContainers(p.Spec.InitContainers, old.Spec.InitContainers, "initContainers")
	errs = append(append(errs, more...), initMore...)
	if !same || !initSame {
		return errs
	}
	errs = append(errs, imagesNamed(p.Spec.Containers, podSpecPath.Child("containers"))...)
	errs = append(errs, imagesNamed(p.Spec.InitContainers, podSpecPath.Child("initContainers"))...)
	if deadline := deadlineUpdate(p.Spec.ActiveDeadlineSeconds, old.Spec.ActiveDeadlineSeconds); deadline != nil {
		return append(errs, deadline)
	}
	errs = append(errs, gatesOnlyRemoved(p, old)...)
	errs = append(errs, tolerationsOnlyAdded(p, old)...)
	if unchanged {
		return errs
	}
	return append(errs, nothingElseChanged(p, old)...)
}

// podAnnotationsKept refuses changes of annotations that are immutable.
func podAnnotationsKept(p, old *corev1.Pod) field.ErrorList {
	if len(p.Annotations) == 0 && len(old.Annotations) == 0 {
		return nil
	}
	var errs field.ErrorList
	path := field.NewPath("metadata", "annotations")
	was, mirror := old.Annotations[corev1.MirrorPodAnnotationKey]
	now, still := p.Annotations[corev1.MirrorPodAnnotationKey]
	switch {
	case mirror && (!still || now != was):
		errs = append(errs, field.Forbidden(path.Key(corev1.MirrorPodAnnotationKey), "may not remove or update mirror pod annotation"))
	case still && !mirror:
		errs = append(errs, field.Forbidden(path.Key(corev1.MirrorPodAnnotationKey), "may not add mirror pod annotation"))
	}
	for key, value := range old.Annotations {
		if strings.HasPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix) && p.Annotations[key] != value {
			errs = append(errs, field.Forbidden(path.Key(key), "may not remove or update AppArmor annotations"))
		}
	}
	return errs
}

func sameContainers(now, before []corev1.Container, name string) (errs field.ErrorList, same bool) {
	if len(now) != len(before) {
		return field.ErrorList{field.Forbidden(podSpecPath.Child(name), "pod updates may not add or remove containers")}, false
	}
	return nil, true
}

// imagesNamed validates the images, which an update may change, a second time, as Kubernetes does.
func imagesNamed(containers []corev1.Container, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range containers {
		switch image := containers[i].Image; {
		case image == "":
			errs = append(errs, field.Required(path.Index(i).Child("image"), ""))
		case image != strings.TrimSpace(image):
			errs = append(errs, field.Invalid(path.Index(i).Child("image"), image, "must not have leading or trailing whitespace"))
		}
	}
	return errs
}

// deadlineUpdate allows a deadline to be set once and to be shortened.
func deadlineUpdate(now, before *int64) *field.Error {
	path := func() *field.Path { return podSpecPath.Child("activeDeadlineSeconds") }
	switch {
	case now == nil && before != nil:
		return field.Invalid(path(), (*int64)(nil), "must not update from a positive integer to nil value")
	case now == nil:
		return nil
	case *now < 0 || *now > math.MaxInt32:
		return field.Invalid(path(), *now, validation.InclusiveRangeError(0, math.MaxInt32))
	case before != nil && *before < *now:
		return field.Invalid(path(), *now, "must be less than or equal to previous value")
	}
	return nil
}

func gatesOnlyRemoved(p, old *corev1.Pod) field.ErrorList {
	var errs field.ErrorList
	for i, g := range p.Spec.SchedulingGates {
		if !slices.Contains(old.Spec.SchedulingGates, g) && !slices.Contains(p.Spec.SchedulingGates[i+1:], g) {
			errs = append(errs, field.Forbidden(podSpecPath.Child("schedulingGates").Index(i).Child("name"),
				fmt.Sprintf("only deletion is allowed, but found new scheduling gate '%s'", g.Name)))
		}
	}
	return errs
}

func tolerationsOnlyAdded(p, old *corev1.Pod) field.ErrorList {
	path := podSpecPath.Child("tolerations")
	for i := range old.Spec.Tolerations {
		if !tolerates(p.Spec.Tolerations, old.Spec.Tolerations[i]) {
			return field.ErrorList{field.Forbidden(path, "existing toleration can not be modified except its tolerationSeconds")}
		}
	}
	return podspec.ValidateTolerations(p.Spec.Tolerations, path)
}

// tolerates reports whether a list contains a toleration, whatever its seconds are.
func tolerates(list []corev1.Toleration, want corev1.Toleration) bool {
	return slices.ContainsFunc(list, func(t corev1.Toleration) bool {
		t.TolerationSeconds = want.TolerationSeconds
		return t == want
	})
}

const updatable = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`," +
	"`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations)," +
	"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"

func nothingElseChanged(p, old *corev1.Pod) field.ErrorList {
	rest, errs := withoutAllowed(p, old)
	if alike.Equal(rest, &old.Spec) {
		return errs
	}
	changes := diff.Diff(quote.Of(old.Spec), quote.Of(*rest))
	return append(errs, field.Forbidden(podSpecPath, updatable+"\n"+changes))
}

// withoutAllowed reverts the changes that are allowed.
func withoutAllowed(p, old *corev1.Pod) (*corev1.PodSpec, field.ErrorList) {
	s, was := p.Spec.DeepCopy(), &old.Spec
	for i := range s.Containers {
		s.Containers[i].Image = was.Containers[i].Image
	}
	for i := range s.InitContainers {
		s.InitContainers[i].Image = was.InitContainers[i].Image
	}
	s.ActiveDeadlineSeconds, s.Tolerations, s.SchedulingGates = was.ActiveDeadlineSeconds, was.Tolerations, was.SchedulingGates
	if g := was.TerminationGracePeriodSeconds; g != nil && *g < 0 && s.TerminationGracePeriodSeconds != nil && *s.TerminationGracePeriodSeconds == 1 {
		s.TerminationGracePeriodSeconds = g
	}
	if len(was.SchedulingGates) == 0 {
		return s, nil
	}
	return s, tightenGated(s, p, old)
}

// tightenGated allows that a pod with scheduling gates is restricted to fewer nodes. It reverts the allowed changes.
func tightenGated(s *corev1.PodSpec, p, old *corev1.Pod) field.ErrorList {
	var errs field.ErrorList
	for key, value := range old.Spec.NodeSelector {
		if now, still := p.Spec.NodeSelector[key]; !still || now != value {
			errs = append(errs, field.Invalid(podSpecPath.Child("nodeSelector"), p.Spec.NodeSelector, "only additions are allowed (no mutations or deletions)"))
			break
		}
	}
	s.NodeSelector = old.Spec.NodeSelector
	was, now := requiredNodes(&old.Spec), requiredNodes(s)
	if was == nil || tighter(now, was) {
		if s.Affinity != nil && s.Affinity.NodeAffinity != nil {
			keepRequired(s, was)
		}
		return errs
	}
	if now == nil || len(now.NodeSelectorTerms) != len(was.NodeSelectorTerms) {
		path := podSpecPath.Child("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
		var terms []corev1.NodeSelectorTerm
		if now != nil {
			terms = now.NodeSelectorTerms
		}
		return append(errs, field.Invalid(path, quote.Of(terms), "no additions/deletions to non-empty NodeSelectorTerms list are allowed"))
	}
	path := podSpecPath.Child("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
	for i := range now.NodeSelectorTerms {
		if !tighterTerm(now.NodeSelectorTerms[i], was.NodeSelectorTerms[i]) {
			errs = append(errs, field.Invalid(path.Index(i), quote.Of(now.NodeSelectorTerms[i]), "only additions are allowed (no mutations or deletions)"))
		}
	}
	keepRequired(s, was)
	return errs
}

func requiredNodes(s *corev1.PodSpec) *corev1.NodeSelector {
	if s.Affinity == nil || s.Affinity.NodeAffinity == nil {
		return nil
	}
	return s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

func keepRequired(s *corev1.PodSpec, was *corev1.NodeSelector) {
	n := s.Affinity.NodeAffinity
	n.RequiredDuringSchedulingIgnoredDuringExecution = was
	if was == nil && len(n.PreferredDuringSchedulingIgnoredDuringExecution) == 0 {
		s.Affinity.NodeAffinity = nil
	}
	if a := s.Affinity; a.NodeAffinity == nil && a.PodAffinity == nil && a.PodAntiAffinity == nil {
		s.Affinity = nil
	}
}

func tighter(now, was *corev1.NodeSelector) bool {
	if now == nil || len(now.NodeSelectorTerms) != len(was.NodeSelectorTerms) {
		return false
	}
	for i := range was.NodeSelectorTerms {
		if !tighterTerm(now.NodeSelectorTerms[i], was.NodeSelectorTerms[i]) {
			return false
		}
	}
	return true
}

// tighterTerm requires that all old requirements stay in their places; new ones may follow. An empty term matches
// nothing and must stay.
func tighterTerm(now, was corev1.NodeSelectorTerm) bool {
	return startsWith(now.MatchExpressions, was.MatchExpressions) && startsWith(now.MatchFields, was.MatchFields) &&
		(len(was.MatchExpressions)+len(was.MatchFields) > 0 || equality.Semantic.DeepEqual(now, was))
}

func startsWith(list, beginning []corev1.NodeSelectorRequirement) bool {
	return len(list) >= len(beginning) && equality.Semantic.DeepEqual(list[:len(beginning)], beginning)
}
