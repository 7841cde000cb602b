package validatingadmissionpolicystatus

import (
	"errors"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"

	"github.com/millrace/millrace/internal/policycel"
)

// typed compiles the expressions of a policy for objects of one kind.
type typed struct {
	kind     schema.GroupVersionKind
	compiler *policycel.Compiler
	with     policycel.Variables
}

// check finds what is wrong with the types of a policy's expressions. An error means that the server could not be
// asked.
func check(p *admissionv1.ValidatingAdmissionPolicy, s *schemas) ([]admissionv1.ExpressionWarning, error) {
	kinds, err := kindsOf(p.Spec.MatchConstraints, s)
	if err != nil || len(kinds) == 0 {
		return nil, err
	}
	params, err := paramsOf(p.Spec.ParamKind, s)
	if err != nil {
		return nil, err
	}
	var all []typed
	for _, k := range kinds {
		object, err := s.typeOf(k, k.Kind)
		if errors.Is(err, resolver.ErrSchemaNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		compiler, err := policycel.New(false, true)
		if err != nil {
			return nil, err
		}
		t := typed{k, compiler, policycel.Variables{Params: p.Spec.ParamKind != nil, Authorizer: true, Types: &policycel.Types{Object: object, Params: params}}}
		for _, v := range p.Spec.Variables {
			compiler.CheckVariable(v.Name, v.Expression, t.with)
		}
		all = append(all, t)
	}
	return warnings(p, all), nil
}

// paramsOf is the type of a policy's parameters; nil if it is not known.
func paramsOf(k *admissionv1.ParamKind, s *schemas) (*apiservercel.DeclType, error) {
	if k == nil {
		return nil, nil
	}
	gv, err := schema.ParseGroupVersion(k.APIVersion)
	if err != nil {
		return nil, nil
	}
	// The name is another one than that of the object's type, which may be of a kind of the same name.
	t, err := s.typeOf(gv.WithKind(k.Kind), k.Kind+"Params")
	if errors.Is(err, resolver.ErrSchemaNotFound) {
		return nil, nil
	}
	return t, err
}

// warnings are those of validations and of the expressions that make their messages.
func warnings(p *admissionv1.ValidatingAdmissionPolicy, all []typed) (out []admissionv1.ExpressionWarning) {
	look := func(at *field.Path, text string) {
		var words []string
		for _, t := range all {
			if w := t.look(text); w != "" {
				words = append(words, w)
			}
		}
		if len(words) > 0 {
			out = append(out, admissionv1.ExpressionWarning{FieldRef: at.String(), Warning: strings.Join(words, "\n")})
		}
	}
	for i, v := range p.Spec.Validations {
		at := field.NewPath("spec", "validations").Index(i)
		look(at.Child("expression"), v.Expression)
		if v.MessageExpression != "" {
			look(at.Child("messageExpression"), v.MessageExpression)
		}
	}
	return out
}

// look compiles an expression, and says what is wrong with it.
func (t *typed) look(text string) string {
	switch err := t.compiler.Check(text, t.with).Err; {
	case err == nil:
		return ""
	case err.Type == apiservercel.ErrorTypeInvalid:
		return fmt.Sprintf("%v: %v\n", t.kind, err)
	default:
		return fmt.Sprintf("%v: type checking error: %v\n", t.kind, err)
	}
}
