// Package scheduling describes the kinds of the group scheduling.k8s.io.
package scheduling

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/check"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// Kinds returns the kinds of the group.
func Kinds() []*resource.Kind { return []*resource.Kind{PriorityClasses()} }

const (
	// HighestPriority is the highest priority for classes of users; higher ones are reserved for the two system
	// classes.
	HighestPriority       = 1000000000
	systemClusterCritical = 2 * HighestPriority
	systemNodeCritical    = systemClusterCritical + 1000
	systemPrefix          = "system-"
)

// SystemClasses are the priority classes that every cluster has.
func SystemClasses() []*schedulingv1.PriorityClass {
	return []*schedulingv1.PriorityClass{
		{
			ObjectMeta:  metav1.ObjectMeta{Name: "system-cluster-critical"},
			Value:       systemClusterCritical,
			Description: "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
		},
		{
			ObjectMeta:  metav1.ObjectMeta{Name: "system-node-critical"},
			Value:       systemNodeCritical,
			Description: "Used for system critical pods that must not be moved from their current node.",
		},
	}
}

// PriorityClasses name priorities of pods.
func PriorityClasses() *resource.Kind {
	doc := schedulingv1.PriorityClass{}.SwaggerDoc()
	return resource.Define(resource.Description[*schedulingv1.PriorityClass]{
		Group: schedulingv1.GroupName, Version: "v1", Kind: "PriorityClass", Resource: "priorityclasses",
		ShortNames: []string{"pc"}, UnconditionalUpdate: true,
		Default: func(c *schedulingv1.PriorityClass) {
			if c.PreemptionPolicy == nil {
				c.PreemptionPolicy = new(corev1.PreemptLowerPriority)
			}
		},
		Rules: resource.Rules[*schedulingv1.PriorityClass]{
			PrepareCreate: func(_ context.Context, c *schedulingv1.PriorityClass) { c.Generation = 1 },
			PrepareUpdate: func(_ context.Context, c, old *schedulingv1.PriorityClass) { c.Generation = old.Generation },
			Validate:      func(_ context.Context, c *schedulingv1.PriorityClass) field.ErrorList { return checkClass(c) },
			ValidateUpdate: func(_ context.Context, c, old *schedulingv1.PriorityClass) field.ErrorList {
				return checkClassUpdate(c, old)
			},
		},
		Columns: []table.Column{
			table.Name(),
			table.Integer("Value", doc["value"]),
			table.Boolean("Global-Default", doc["globalDefault"]),
			table.Age(),
			table.Text("PreemptionPolicy", doc["preemptionPolicy"]),
		},
		Row: func(c *schedulingv1.PriorityClass) resource.Row {
			policy := ""
			if c.PreemptionPolicy != nil {
				policy = string(*c.PreemptionPolicy)
			}
			return resource.Row{Cells: []any{c.Name, int64(c.Value), c.GlobalDefault, table.Since(c.CreationTimestamp), policy}}
		},
	})
}

func checkClass(c *schedulingv1.PriorityClass) field.ErrorList {
	var errs field.ErrorList
	switch known := systemProblem(c); {
	case !strings.HasPrefix(c.Name, systemPrefix):
		if c.Value > HighestPriority {
			errs = append(errs, field.Forbidden(field.NewPath("value"), fmt.Sprintf("maximum allowed value of a user defined priority is %v", int32(HighestPriority))))
		}
	case known != "":
		errs = append(errs, field.Forbidden(field.NewPath("metadata", "name"),
			"priority class names with '"+systemPrefix+"' prefix are reserved for system use only. error: "+known))
	}
	switch {
	case c.PreemptionPolicy == nil:
	case *c.PreemptionPolicy == "":
		errs = append(errs, field.Required(field.NewPath("preemptionPolicy"), ""))
	default:
		errs = append(errs, check.OneOf(*c.PreemptionPolicy, field.NewPath("preemptionPolicy"), corev1.PreemptLowerPriority, corev1.PreemptNever)...)
	}
	return errs
}

// systemProblem returns how a class with a reserved name differs from the system class of that name.
func systemProblem(c *schedulingv1.PriorityClass) string {
	classes := SystemClasses()
	known := slices.IndexFunc(classes, func(own *schedulingv1.PriorityClass) bool { return own.Name == c.Name })
	switch {
	case known < 0:
		return c.Name + " is not a known system priority class"
	case c.Value != classes[known].Value:
		return fmt.Sprintf("value of %v PriorityClass must be %v", c.Name, classes[known].Value)
	case c.GlobalDefault:
		return fmt.Sprintf("globalDefault of %v PriorityClass must be false", c.Name)
	}
	return ""
}

func checkClassUpdate(c, old *schedulingv1.PriorityClass) field.ErrorList {
	var errs field.ErrorList
	if c.Value != old.Value {
		errs = append(errs, field.Forbidden(field.NewPath("value"), "may not be changed in an update."))
	}
	return append(errs, check.Immutable(c.PreemptionPolicy, old.PreemptionPolicy, field.NewPath("preemptionPolicy"))...)
}
