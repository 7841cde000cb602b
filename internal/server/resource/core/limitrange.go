package core

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// LimitRanges limit the requests of pods and claims in a namespace, and set their defaults.
func LimitRanges() *resource.Kind {
	return resource.Define(resource.Description[*corev1.LimitRange]{
		Group: "", Version: "v1", Kind: "LimitRange", Resource: "limitranges",
		Namespaced: true, ShortNames: []string{"limits"},
		NoGeneration: true, UnconditionalUpdate: true, CreateOnUpdate: true,
		Default: defaultLimitRange,
		Rules: resource.Rules[*corev1.LimitRange]{
			PrepareCreate: func(_ context.Context, l *corev1.LimitRange) {
				if l.Name == "" {
					l.Name = string(uuid.NewUUID())
				}
			},
			Validate:       func(_ context.Context, l *corev1.LimitRange) field.ErrorList { return checkLimitRange(l) },
			ValidateUpdate: func(_ context.Context, l, _ *corev1.LimitRange) field.ErrorList { return checkLimitRange(l) },
		},
		Columns: []table.Column{table.Name(), table.CreatedAt()},
		Row: func(l *corev1.LimitRange) resource.Row {
			return resource.Row{Cells: []any{l.Name, table.Created(l.CreationTimestamp)}}
		},
	})
}

// defaultLimitRange completes the limits of containers: the default limit is the maximum; the default request is the
// default limit or, if there is none, the minimum.
func defaultLimitRange(l *corev1.LimitRange) {
	for i := range l.Spec.Limits {
		item := &l.Spec.Limits[i]
		if item.Type != corev1.LimitTypeContainer {
			continue
		}
		if item.Default == nil {
			item.Default = corev1.ResourceList{}
		}
		if item.DefaultRequest == nil {
			item.DefaultRequest = corev1.ResourceList{}
		}
		fillIn(item.Default, item.Max)
		fillIn(item.DefaultRequest, item.Default)
		fillIn(item.DefaultRequest, item.Min)
	}
}

func fillIn(list, from corev1.ResourceList) {
	for name, q := range from {
		if _, there := list[name]; !there {
			list[name] = q.DeepCopy()
		}
	}
}
