package devices

import (
	"encoding/json"
	"fmt"
	"strings"

	v1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/millrace/millrace/internal/server/resource/check"
)

// checkSelectors compiles CEL expressions. Stored ones are not checked again, because they were valid once.
func checkSelectors(all []v1.DeviceSelector, path *field.Path, stored bool) field.ErrorList {
	if len(all) > v1.DeviceSelectorsMaxSize {
		return nil // declarative validation reports it
	}
	var errs field.ErrorList
	for i, s := range all {
		at := path.Index(i).Child("cel")
		switch {
		case s.CEL == nil:
			errs = append(errs, field.Required(at, ""))
		case !stored:
			errs = append(errs, checkExpression(s.CEL.Expression, at.Child("expression"))...)
		}
	}
	return errs
}

func checkExpression(text string, path *field.Path) field.ErrorList {
	if len(text) > v1.CELSelectorExpressionMaxLength {
		return field.ErrorList{field.TooLong(path, "", v1.CELSelectorExpressionMaxLength)}
	}
	kind := environment.NewExpressions
	result := cel.GetCompiler(cel.Features{EnableConsumableCapacity: true}).CompileCELExpression(text, cel.Options{EnvType: &kind})
	switch problem := result.Error; {
	case problem == nil && result.MaxCost > v1.CELSelectorExpressionMaxCost:
		return field.ErrorList{field.Forbidden(path, "too complex, exceeds cost limit")}
	case problem == nil:
		return nil
	case problem.Type == apiservercel.ErrorTypeRequired:
		return field.ErrorList{field.Required(path, problem.Detail)}
	case problem.Type == apiservercel.ErrorTypeInvalid:
		return field.ErrorList{field.Invalid(path, text, problem.Detail)}
	default:
		return field.ErrorList{field.InternalError(path, problem)}
	}
}

func checkConfiguration(c *v1.DeviceConfiguration, path *field.Path, stored bool) field.ErrorList {
	at := path.Child("opaque")
	if c.Opaque == nil {
		return field.ErrorList{field.Required(at, "")}
	}
	return checkJSON(&c.Opaque.Parameters, at.Child("parameters"), stored, v1.OpaqueParametersMaxLength)
}

// checkJSON requires a JSON object. A stored one may be longer, because the limit was added later.
func checkJSON(raw *runtime.RawExtension, path *field.Path, stored bool, most int) field.ErrorList {
	var v any
	switch {
	case len(raw.Raw) == 0:
		return field.ErrorList{field.Required(path, "")}
	case !stored && len(raw.Raw) > most:
		return field.ErrorList{field.TooLong(path, "", most)}
	}
	if err := json.Unmarshal(raw.Raw, &v); err != nil {
		return field.ErrorList{field.Invalid(path, "<value omitted>", fmt.Sprintf("error parsing data as JSON: %v", err))}
	}
	switch v.(type) {
	case nil:
		return field.ErrorList{field.Required(path, "")}
	case map[string]any:
		return nil
	}
	return field.ErrorList{field.Invalid(path, "<value omitted>", "must be a valid JSON object")}
}

func checkPool(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	if len(name) > v1.PoolNameMaxLength {
		errs = append(errs, field.TooLong(path, "", v1.PoolNameMaxLength))
	}
	for part := range strings.SplitSeq(name, "/") {
		errs = append(errs, check.Subdomain(part, path)...)
	}
	return errs
}

func checkLabelValue(value string, path *field.Path) field.ErrorList {
	return check.Invalid(path, value, utilvalidation.IsValidLabelValue(value))
}

func checkTemplateMeta(m *metav1.ObjectMeta, path *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabels(m.Labels, path.Child("labels"))
	return append(errs, validation.ValidateAnnotations(m.Annotations, path.Child("annotations"))...)
}
