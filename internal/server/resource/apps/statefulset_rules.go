package apps

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/check"
	"github.com/millrace/millrace/internal/server/resource/podspec"
	"github.com/millrace/millrace/internal/server/resource/quote"
)

var statefulSetRules = resource.Rules[*appsv1.StatefulSet]{
	Validate: func(ctx context.Context, set *appsv1.StatefulSet) field.ErrorList {
		errs := checkStatefulSet(ctx, set, nil)
		if n := set.Spec.ServiceName; n != "" {
			errs = append(errs, check.Invalid(specPath.Child("serviceName"), n, validation.IsDNS1123Label(n))...)
		}
		return errs
	},
	ValidateUpdate: checkStatefulSetUpdate,
	Warnings: func(_ context.Context, set, old *appsv1.StatefulSet) []string {
		if old != nil && set.Generation == old.Generation {
			return nil
		}
		return statefulSetWarnings(set)
	},
}

func statefulSetWarnings(set *appsv1.StatefulSet) []string {
	w := podspec.TemplateWarnings(&set.Spec.Template, templatePath)
	for i := range set.Spec.VolumeClaimTemplates {
		w = append(w, podspec.ClaimWarnings(&set.Spec.VolumeClaimTemplates[i].Spec, specPath.Child("volumeClaimTemplates").Index(i).Child("resources"))...)
	}
	if n := set.Spec.RevisionHistoryLimit; n != nil && *n < 0 {
		w = append(w, "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended")
	}
	return w
}

// checkStatefulSet validates the whole set. If old is not nil, invalid values that old already has may stay.
func checkStatefulSet(ctx context.Context, set, old *appsv1.StatefulSet) field.ErrorList {
	s := &set.Spec
	var errs field.ErrorList
	switch s.PodManagementPolicy {
	case appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement:
	case "":
		errs = append(errs, field.Required(specPath.Child("podManagementPolicy"), ""))
	default:
		errs = append(errs, field.Invalid(specPath.Child("podManagementPolicy"), s.PodManagementPolicy,
			fmt.Sprintf("must be '%s' or '%s'", appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement)))
	}
	errs = append(errs, checkStatefulStrategy(&s.UpdateStrategy)...)
	errs = append(errs, checkRetention(s.PersistentVolumeClaimRetentionPolicy)...)
	errs = append(errs, nonNegative(specPath, number{"replicas", optional(s.Replicas)}, number{"minReadySeconds", int64(s.MinReadySeconds)})...)
	if s.Ordinals != nil {
		errs = append(errs, nonNegative(specPath.Child("ordinals"), number{"start", int64(s.Ordinals.Start)})...)
	}
	claimsChanged := old == nil || !equality.Semantic.DeepEqual(s.VolumeClaimTemplates, old.Spec.VolumeClaimTemplates)
	if old == nil {
		errs = append(errs, checkClaimTemplates(s.VolumeClaimTemplates)...)
	}
	errs = append(errs, checkSelector(s.Selector, "statefulset")...)
	selector, err := metav1.LabelSelectorAsSelector(s.Selector)
	if err != nil {
		errs = append(errs, field.Invalid(selectorPath, s.Selector, ""))
	} else {
		errs = append(errs, podspec.ValidateSelected(&s.Template, selector, templatePath)...)
		if claimsChanged || !equality.Semantic.DeepEqual(&s.Template, &old.Spec.Template) {
			opt := podspec.OptionsFrom(ctx)
			opt.AllVolumes = volumesOf(s)
			errs = append(errs, podspec.ValidateTemplate(&s.Template, templatePath, opt)...)
			errs = append(errs, podspec.ValidateTemplateMetadata(&s.Template, templatePath)...) // Kubernetes validates it twice
		}
	}
	return append(errs, podspec.ValidateRunningTemplate(&s.Template, templatePath, "StatefulSet")...)
}

// volumesOf returns the volumes of the pods: first the claims, then those volumes of the template that no claim
// replaces.
func volumesOf(s *appsv1.StatefulSetSpec) []corev1.Volume {
	var volumes []corev1.Volume
	claimed := map[string]bool{}
	for i := range s.VolumeClaimTemplates {
		name := s.VolumeClaimTemplates[i].Name
		if claimed[name] {
			continue
		}
		claimed[name] = true
		volumes = append(volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}})
	}
	for _, v := range s.Template.Spec.Volumes {
		if !claimed[v.Name] {
			volumes = append(volumes, v)
		}
	}
	return volumes
}

func checkClaimTemplates(templates []corev1.PersistentVolumeClaim) field.ErrorList {
	var errs field.ErrorList
	for i := range templates {
		errs = append(errs, podspec.ValidateClaimSpec(&templates[i].Spec, specPath.Child("volumeClaimTemplates").Index(i).Child("spec"), metavalidation.LabelSelectorValidationOptions{})...)
	}
	return errs
}

func checkStatefulStrategy(s *appsv1.StatefulSetUpdateStrategy) field.ErrorList {
	path := func(names ...string) *field.Path { return specPath.Child("updateStrategy", names...) }
	switch s.Type {
	case "":
		return field.ErrorList{field.Required(path(), "")}
	case appsv1.OnDeleteStatefulSetStrategyType:
		if s.RollingUpdate != nil {
			return field.ErrorList{field.Invalid(path("rollingUpdate"), quote.Of(s.RollingUpdate),
				fmt.Sprintf("only allowed for updateStrategy '%s'", appsv1.RollingUpdateStatefulSetStrategyType))}
		}
		return nil
	case appsv1.RollingUpdateStatefulSetStrategyType:
		if s.RollingUpdate == nil {
			return nil
		}
		errs := nonNegative(path("rollingUpdate"), number{"partition", optional(s.RollingUpdate.Partition)})
		if n := s.RollingUpdate.MaxUnavailable; n != nil {
			errs = append(errs, checkAmount(*n, path("rollingUpdate", "maxUnavailable"))...)
			if isZero(n) {
				errs = append(errs, field.Invalid(path("rollingUpdate", "maxUnavailable"), *n, "cannot be 0"))
			}
			errs = append(errs, notMoreThanAll(*n, path("rollingUpdate", "maxUnavailable"))...)
		}
		return errs
	}
	return field.ErrorList{field.Invalid(path(), quote.Of(s),
		fmt.Sprintf("must be '%s' or '%s'", appsv1.RollingUpdateStatefulSetStrategyType, appsv1.OnDeleteStatefulSetStrategyType))}
}

func checkRetention(p *appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy) field.ErrorList {
	if p == nil {
		return nil
	}
	path := specPath.Child("persistentVolumeClaimRetentionPolicy")
	retain, remove := appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	errs := check.OneOf(p.WhenDeleted, path.Child("whenDeleted"), retain, remove)
	return append(errs, check.OneOf(p.WhenScaled, path.Child("whenScaled"), retain, remove)...)
}

const mutableOfStatefulSets = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', " +
	"'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"

func checkStatefulSetUpdate(ctx context.Context, set, old *appsv1.StatefulSet) field.ErrorList {
	errs := checkStatefulSet(ctx, set, old)
	rest, was := set.Spec, &old.Spec
	rest.Replicas, rest.Template, rest.UpdateStrategy, rest.MinReadySeconds = was.Replicas, was.Template, was.UpdateStrategy, was.MinReadySeconds
	rest.Ordinals, rest.RevisionHistoryLimit = was.Ordinals, was.RevisionHistoryLimit
	rest.PersistentVolumeClaimRetentionPolicy = was.PersistentVolumeClaimRetentionPolicy
	if !equality.Semantic.DeepEqual(&rest, was) {
		errs = append(errs, field.Forbidden(specPath, mutableOfStatefulSets))
	}
	return errs
}

var statefulSetStatusRules = resource.Rules[*appsv1.StatefulSet]{
	ValidateUpdate: func(_ context.Context, set, old *appsv1.StatefulSet) field.ErrorList {
		s := &set.Status
		errs := nonNegative(statusPath,
			number{"replicas", int64(s.Replicas)}, number{"readyReplicas", int64(s.ReadyReplicas)},
			number{"currentReplicas", int64(s.CurrentReplicas)}, number{"updatedReplicas", int64(s.UpdatedReplicas)},
			number{"availableReplicas", int64(s.AvailableReplicas)}, number{"observedGeneration", s.ObservedGeneration},
			number{"collisionCount", optional(s.CollisionCount)})
		errs = append(errs, notMoreThan(int64(s.Replicas), "cannot be greater than status.replicas",
			number{"readyReplicas", int64(s.ReadyReplicas)}, number{"currentReplicas", int64(s.CurrentReplicas)},
			number{"updatedReplicas", int64(s.UpdatedReplicas)}, number{"availableReplicas", int64(s.AvailableReplicas)})...)
		errs = append(errs, notMoreThan(int64(s.ReadyReplicas), "cannot be greater than status.readyReplicas",
			number{"availableReplicas", int64(s.AvailableReplicas)})...)
		return append(errs, neverLess(s.CollisionCount, old.Status.CollisionCount, statusPath.Child("collisionCount"))...)
	},
}
