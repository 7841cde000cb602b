package expression

import (
	"github.com/google/cel-go/cel"
	authorizationv1 "k8s.io/api/authorization/v1"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

const requestName = "request"

var (
	text = apiservercel.StringType

	requirementType = object("kubernetes.SelectorRequirement", map[string]*apiservercel.DeclType{"key": text, "operator": text, "values": texts})
	selectorFields  = map[string]*apiservercel.DeclType{"rawSelector": text, "requirements": apiservercel.NewListType(requirementType, -1)}
	resourceType    = object("kubernetes.ResourceAttributes", map[string]*apiservercel.DeclType{
		"namespace": text, "verb": text, "group": text, "version": text, "resource": text, "subresource": text, "name": text,
		"fieldSelector": object("kubernetes.FieldSelectorAttributes", selectorFields),
		"labelSelector": object("kubernetes.LabelSelectorAttributes", selectorFields),
	})
	requestType = object("kubernetes.SubjectAccessReviewSpec", map[string]*apiservercel.DeclType{
		"resourceAttributes":    resourceType,
		"nonResourceAttributes": object("kubernetes.NonResourceAttributes", map[string]*apiservercel.DeclType{"path": text, "verb": text}),
		"user":                  text, "uid": text, "groups": texts, "extra": apiservercel.NewMapType(text, texts, -1),
	})

	requestEnv = variable(requestName, requestType, requestType)
)

// object is a type with optional fields.
func object(name string, fields map[string]*apiservercel.DeclType) *apiservercel.DeclType {
	all := map[string]*apiservercel.DeclField{}
	for name, of := range fields {
		all[name] = optional(name, of)
	}
	return apiservercel.NewObjectType(name, all)
}

// Request compiles a condition about a question whether something is allowed, by the name "request".
func Request(text string) (*Expression, *apiservercel.Error) {
	e, err := compile(requestEnv, requestName, text, cel.AnyType)
	if err == nil && !e.ast.OutputType().IsExactType(cel.BoolType) {
		return nil, invalid("must evaluate to " + cel.BoolType.String() + " but got " + e.ast.OutputType().String())
	}
	return e, err
}

// RequestValue is such a question as expressions see it: all that is said of the user and of the resource, also if it
// is empty.
func RequestValue(s *authorizationv1.SubjectAccessReviewSpec) any {
	extra := map[string][]string{}
	for key, values := range s.Extra {
		extra[key] = values
	}
	out := map[string]any{"user": s.User, "groups": s.Groups, "uid": s.UID, "extra": extra}
	if r := s.ResourceAttributes; r != nil {
		at := map[string]any{
			"namespace": r.Namespace, "verb": r.Verb, "group": r.Group, "version": r.Version, "resource": r.Resource, "subresource": r.Subresource, "name": r.Name,
		}
		if f := r.FieldSelector; f != nil && len(f.Requirements) > 0 {
			all := []any{}
			for _, one := range f.Requirements {
				all = append(all, requirement(one.Key, string(one.Operator), one.Values))
			}
			at["fieldSelector"] = map[string]any{"requirements": all}
		}
		if l := r.LabelSelector; l != nil && len(l.Requirements) > 0 {
			all := []any{}
			for _, one := range l.Requirements {
				all = append(all, requirement(one.Key, string(one.Operator), one.Values))
			}
			at["labelSelector"] = map[string]any{"requirements": all}
		}
		out["resourceAttributes"] = at
	}
	if n := s.NonResourceAttributes; n != nil {
		out["nonResourceAttributes"] = map[string]any{"path": n.Path, "verb": n.Verb}
	}
	return out
}

func requirement(key, operator string, values []string) map[string]any {
	return map[string]any{"key": key, "operator": operator, "values": values}
}
