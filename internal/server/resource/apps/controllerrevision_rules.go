package apps

import (
	"bytes"
	"context"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/check"
)

var revisionRules = resource.Rules[*appsv1.ControllerRevision]{
	Validate: checkRevision,
	ValidateUpdate: func(_ context.Context, r, old *appsv1.ControllerRevision) field.ErrorList {
		return append(check.NonNegative(r.Revision, field.NewPath("revision")), check.Immutable(r.Data, old.Data, field.NewPath("data"))...)
	},
}

func checkRevision(_ context.Context, r *appsv1.ControllerRevision) field.ErrorList {
	var errs field.ErrorList
	if r.Data.Raw == nil && r.Data.Object == nil {
		errs = append(errs, field.Required(field.NewPath("data"), "data is mandatory"))
	} else if raw := bytes.TrimSpace(r.Data.Raw); r.Data.Object == nil && (len(raw) == 0 || raw[0] != '{') {
		errs = append(errs, field.Required(field.NewPath("data"), "data must be a valid JSON object"))
	}
	return append(errs, check.NonNegative(r.Revision, field.NewPath("revision"))...)
}
