package podspec

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Annotations of pods that have a meaning for the server.
const (
	tolerationsAnnotation   = corev1.TolerationsAnnotationKey
	deletionCostAnnotation  = corev1.PodDeletionCost
	appArmorAnnotation      = corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix
	seccompPodAnnotation    = corev1.SeccompPodAnnotationKey
	seccompPrefixAnnotation = corev1.SeccompContainerAnnotationKeyPrefix
)

// annotations validates the annotations with a meaning. p is the place of the annotations.
func (x *examiner) annotations(p fieldPath, a map[string]string) {
	if len(a) == 0 {
		return
	}
	if value, mirror := a[corev1.MirrorPodAnnotationKey]; mirror && x.spec.NodeName == "" {
		x.invalid(p.keyed(corev1.MirrorPodAnnotationKey), value, "must set spec.nodeName if mirror pod annotation is set")
	}
	if text := a[tolerationsAnnotation]; text != "" {
		var list []corev1.Toleration
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			x.invalid(p, tolerationsAnnotation, err.Error())
		} else {
			x.tolerationList(p.child(tolerationsAnnotation), list)
		}
	}
	if cost, set := a[deletionCostAnnotation]; set && !isCost(cost) {
		x.invalid(p.keyed(deletionCostAnnotation), cost, "must be a 32bit integer")
	}
	x.seccompAnnotations(p, a)
	for _, key := range slices.Sorted(maps.Keys(a)) {
		if container, ok := strings.CutPrefix(key, appArmorAnnotation); ok {
			x.appArmorAnnotation(p, key, container, a[key])
		}
	}
}

// isCost requires an integer without plus sign and leading zeros.
func isCost(s string) bool {
	n, err := strconv.ParseInt(s, 10, 32)
	return err == nil && strconv.FormatInt(n, 10) == s
}

func (x *examiner) seccompAnnotations(p fieldPath, a map[string]string) {
	if profile, set := a[seccompPodAnnotation]; set {
		x.seccompName(p.child(seccompPodAnnotation), profile)
	}
	for _, key := range slices.Sorted(maps.Keys(a)) {
		if strings.HasPrefix(key, seccompPrefixAnnotation) {
			x.seccompName(p.child(key), a[key])
		}
	}
}

func (x *examiner) seccompName(p fieldPath, profile string) {
	if profile == "runtime/default" || profile == "docker/default" || profile == "unconfined" {
		return
	}
	if file, local := strings.CutPrefix(profile, "localhost/"); local {
		x.descendingPath(p, file)
		return
	}
	x.invalid(p, profile, "must be a valid seccomp profile")
}

func (x *examiner) appArmorAnnotation(p fieldPath, key, container, profile string) {
	known := slices.ContainsFunc(x.spec.Containers, func(c corev1.Container) bool { return c.Name == container }) ||
		slices.ContainsFunc(x.spec.InitContainers, func(c corev1.Container) bool { return c.Name == container }) ||
		slices.ContainsFunc(x.spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return c.Name == container })
	c := p.keyed(key)
	if !known {
		x.invalid(c, container, "container not found")
	}
	if profile != "" && profile != "runtime/default" && profile != "unconfined" && !strings.HasPrefix(profile, "localhost/") {
		x.invalid(c, profile, "invalid AppArmor profile name: "+strconv.Quote(profile))
	}
}

// ValidateTemplateMetadata validates the labels and annotations of a pod template.
func ValidateTemplateMetadata(t *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	x := examiner{spec: &t.Spec, meta: &t.ObjectMeta}
	p := x.from(path)
	x.templateMetadata(p, t)
	return x.errs
}

// templateMetadata validates the labels and annotations of a pod template.
func (x *examiner) templateMetadata(p fieldPath, t *corev1.PodTemplateSpec) {
	x.labels(p, "labels", t.Labels)
	if len(t.Annotations) == 0 {
		return
	}
	c := p.child("annotations")
	x.errs = append(x.errs, validation.ValidateAnnotations(t.Annotations, x.path(c))...)
	x.annotations(c, t.Annotations)
}
