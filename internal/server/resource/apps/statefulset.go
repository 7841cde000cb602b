package apps

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/podspec"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// StatefulSets keep pods with names, an order and their own volumes.
func StatefulSets() *resource.Kind {
	return resource.Define(resource.Description[*appsv1.StatefulSet]{
		Group: group, Version: version, Kind: "StatefulSet", Resource: "statefulsets",
		Namespaced: true, ShortNames: []string{"sts"}, Categories: []string{"all"},
		UnconditionalUpdate: true,
		Name:                validation.NameIsDNSLabel,
		Default:             defaultStatefulSet,
		Restore:             nameClaimTemplates,
		Rules:               statefulSetRules,
		Status:              &statefulSetStatusRules,
		Scale: &resource.Scale[*appsv1.StatefulSet]{
			Replicas: func(s *appsv1.StatefulSet) *int32 { return replicasOf(&s.Spec.Replicas) },
			Status:   func(s *appsv1.StatefulSet) int32 { return s.Status.Replicas },
			Selector: func(s *appsv1.StatefulSet) string { return selectorText(s.Spec.Selector) },
		},
		Columns: statefulSetColumns,
		Row:     statefulSetRow,
	})
}

func defaultStatefulSet(set *appsv1.StatefulSet) {
	s := &set.Spec
	podspec.DefaultTemplate(&s.Template)
	if s.PodManagementPolicy == "" {
		s.PodManagementPolicy = appsv1.OrderedReadyPodManagement
	}
	if s.UpdateStrategy.Type == "" {
		s.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
		if s.UpdateStrategy.RollingUpdate == nil {
			s.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{}
		}
	}
	if r := s.UpdateStrategy.RollingUpdate; r != nil && s.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType {
		if r.Partition == nil {
			r.Partition = new(int32)
		}
		if r.MaxUnavailable == nil {
			r.MaxUnavailable = new(intstr.FromInt32(1))
		}
	}
	if s.PersistentVolumeClaimRetentionPolicy == nil {
		s.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{}
	}
	for _, when := range []*appsv1.PersistentVolumeClaimRetentionPolicyType{
		&s.PersistentVolumeClaimRetentionPolicy.WhenDeleted, &s.PersistentVolumeClaimRetentionPolicy.WhenScaled,
	} {
		if *when == "" {
			*when = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
		}
	}
	if s.Replicas == nil {
		s.Replicas = new(int32(1))
	}
	if s.RevisionHistoryLimit == nil {
		s.RevisionHistoryLimit = new(int32(10))
	}
	for i := range s.VolumeClaimTemplates {
		defaultClaimTemplate(&s.VolumeClaimTemplates[i])
	}
}

// nameClaimTemplates sets kind and version of the claim templates, which protobuf does not store.
func nameClaimTemplates(set *appsv1.StatefulSet) {
	for i := range set.Spec.VolumeClaimTemplates {
		nameClaim(&set.Spec.VolumeClaimTemplates[i])
	}
}

func nameClaim(c *corev1.PersistentVolumeClaim) {
	c.APIVersion, c.Kind = "v1", "PersistentVolumeClaim"
}

func defaultClaimTemplate(c *corev1.PersistentVolumeClaim) {
	nameClaim(c)
	if c.Status.Phase == "" {
		c.Status.Phase = corev1.ClaimPending
	}
	podspec.DefaultClaim(&c.Spec)
}

var statefulSetColumns = []table.Column{
	table.Name(),
	table.Text("Ready", "Number of the pod with ready state"),
	table.Age(),
	table.Wide(table.Text("Containers", "Names of each container in the template.")),
	table.Wide(table.Text("Images", "Images referenced by each container in the template.")),
}

func statefulSetRow(s *appsv1.StatefulSet) resource.Row {
	names, images := podspec.NamesAndImages(s.Spec.Template.Spec.Containers)
	return resource.Row{Cells: []any{
		s.Name, fmt.Sprintf("%d/%d", s.Status.ReadyReplicas, valueOf(s.Spec.Replicas)), table.Since(s.CreationTimestamp),
		names, images,
	}}
}
