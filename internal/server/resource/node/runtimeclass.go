// Package node describes the kinds of the group node.k8s.io.
package node

import (
	"context"

	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/check"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// Kinds returns the kinds of the group.
func Kinds() []*resource.Kind { return []*resource.Kind{RuntimeClasses()} }

// RuntimeClasses name ways to run containers.
func RuntimeClasses() *resource.Kind {
	return resource.Define(resource.Description[*nodev1.RuntimeClass]{
		Group: nodev1.GroupName, Version: "v1", Kind: "RuntimeClass", Resource: "runtimeclasses", CreateOnUpdate: true,
		Rules: resource.Rules[*nodev1.RuntimeClass]{
			Validate: func(_ context.Context, c *nodev1.RuntimeClass) field.ErrorList { return checkClass(c) },
			ValidateUpdate: func(_ context.Context, c, old *nodev1.RuntimeClass) field.ErrorList {
				return append(checkClass(c), check.Immutable(c.Handler, old.Handler, field.NewPath("handler"))...)
			},
			Warnings: func(_ context.Context, c, _ *nodev1.RuntimeClass) []string { return warnings(c) },
		},
		Columns: []table.Column{table.Name(), table.Text("Handler", nodev1.RuntimeClass{}.SwaggerDoc()["handler"]), table.Age()},
		Row: func(c *nodev1.RuntimeClass) resource.Row {
			return resource.Row{Cells: []any{c.Name, c.Handler, table.Since(c.CreationTimestamp)}}
		},
	})
}

func checkClass(c *nodev1.RuntimeClass) field.ErrorList {
	var errs field.ErrorList
	if at := field.NewPath("handler"); c.Handler == "" {
		errs = append(errs, field.Required(at, ""))
	} else {
		errs = append(errs, check.Label(c.Handler, at)...)
	}
	if c.Overhead != nil {
		errs = append(errs, checkOverhead(c.Overhead, field.NewPath("overhead"))...)
	}
	if c.Scheduling != nil {
		errs = append(errs, checkScheduling(c.Scheduling, field.NewPath("scheduling"))...)
	}
	return errs
}
