package policies

import (
	"context"
	"strings"

	"github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/millrace/millrace/internal/policycel"
	"github.com/millrace/millrace/internal/server/resource"
)

// Complete lets the rules of the kinds that hold expressions refuse those that do not compile. Expressions that were
// there before an update are compiled with what they were compiled with then.
func Complete(kinds []*resource.Kind) {
	for _, k := range kinds {
		if k.Group != admissionv1.GroupName {
			continue
		}
		create, update := k.Main.Validate, k.Main.ValidateUpdate
		k.Main.Validate = func(ctx context.Context, o resource.Object) field.ErrorList {
			return append(create(ctx, o), checkExpressions(o, nil)...)
		}
		k.Main.ValidateUpdate = func(ctx context.Context, o, old resource.Object) field.ErrorList {
			return append(update(ctx, o, old), checkExpressions(o, old)...)
		}
	}
}

// checker compiles the expressions of an object.
type checker struct {
	added, stored *policycel.Compiler
	variables     bool
	before        map[string]bool // expressions of the object as it was
	errs          field.ErrorList
}

func checkExpressions(o, old resource.Object) field.ErrorList {
	c := &checker{before: map[string]bool{}}
	if old != nil {
		visit(old, func(_ *field.Path, text, _ string, _ policycel.Variables, _ ...*cel.Type) { c.before[text] = true })
	}
	visit(o, func(_ *field.Path, _, variable string, _ policycel.Variables, _ ...*cel.Type) {
		c.variables = c.variables || variable != ""
	})
	visit(o, c.check)
	return c.errs
}

// compilers make what they need when the first expression comes.
func (c *checker) compilers() error {
	if c.added != nil {
		return nil
	}
	var err error
	if c.added, err = policycel.New(true, c.variables); err == nil {
		c.stored, err = policycel.New(false, c.variables)
	}
	return err
}

func (c *checker) check(at *field.Path, text, variable string, v policycel.Variables, returns ...*cel.Type) {
	if strings.TrimSpace(text) == "" {
		return // which is an error by itself
	}
	if err := c.compilers(); err != nil {
		c.errs = append(c.errs, field.InternalError(at, err))
		return
	}
	compiler := c.added
	if c.before[text] {
		compiler = c.stored
	}
	var e *policycel.Expression
	if variable == "" {
		e = compiler.Compile(text, v, returns...)
	} else {
		e = c.added.Variable(variable, text, v)
		if again := c.stored.Variable(variable, text, v); compiler == c.stored {
			e = again
		}
	}
	switch {
	case e.Err == nil:
	case e.Err.Type == apiservercel.ErrorTypeInvalid:
		c.errs = append(c.errs, field.Invalid(at, text, e.Err.Detail))
	default:
		c.errs = append(c.errs, field.InternalError(at, e.Err))
	}
}

// visitor is shown an expression: where it is, the name of the variable that it makes, what it may name, and what it
// must come to.
type visitor func(at *field.Path, text, variable string, v policycel.Variables, returns ...*cel.Type)

// visit shows all expressions of an object, in their order.
func visit(o resource.Object, see visitor) {
	spec := field.NewPath("spec")
	switch o := o.(type) {
	case *admissionv1.ValidatingAdmissionPolicy:
		visitValidating(&o.Spec, spec, see)
	case *admissionv1.MutatingAdmissionPolicy:
		visitMutating(&o.Spec, spec, see)
	case *admissionv1.ValidatingWebhookConfiguration:
		for i, w := range o.Webhooks {
			visitConditions(w.MatchConditions, field.NewPath("webhooks").Index(i).Child("matchConditions"), policycel.Variables{Authorizer: true}, see)
		}
	case *admissionv1.MutatingWebhookConfiguration:
		for i, w := range o.Webhooks {
			visitConditions(w.MatchConditions, field.NewPath("webhooks").Index(i).Child("matchConditions"), policycel.Variables{Authorizer: true}, see)
		}
	}
}

func visitConditions(all []admissionv1.MatchCondition, at *field.Path, v policycel.Variables, see visitor) {
	v.Alone = true
	for i, c := range all {
		see(at.Index(i).Child("expression"), c.Expression, "", v, cel.BoolType)
	}
}

func visitVariables(all []admissionv1.Variable, at *field.Path, v policycel.Variables, see visitor) {
	for i, one := range all {
		if one.Name != "" {
			see(at.Index(i).Child("expression"), one.Expression, one.Name, v, cel.AnyType, cel.DynType)
		}
	}
}

func visitValidating(s *admissionv1.ValidatingAdmissionPolicySpec, at *field.Path, see visitor) {
	with := policycel.Variables{Params: s.ParamKind != nil, Authorizer: true}
	visitConditions(s.MatchConditions, at.Child("matchConditions"), with, see)
	visitVariables(s.Variables, at.Child("variables"), with, see)
	for i, v := range s.Validations {
		path := at.Child("validations").Index(i)
		see(path.Child("expression"), v.Expression, "", with, cel.BoolType)
		see(path.Child("messageExpression"), v.MessageExpression, "", policycel.Variables{Params: with.Params}, cel.StringType)
	}
	for i, a := range s.AuditAnnotations {
		see(at.Child("auditAnnotations").Index(i).Child("valueExpression"), a.ValueExpression, "", with, cel.StringType, cel.NullType)
	}
}

func visitMutating(s *admissionv1.MutatingAdmissionPolicySpec, at *field.Path, see visitor) {
	with := policycel.Variables{Params: s.ParamKind != nil, Authorizer: true}
	visitConditions(s.MatchConditions, at.Child("matchConditions"), with, see)
	visitVariables(s.Variables, at.Child("variables"), with, see)
	with.Patches = true
	for i, m := range s.Mutations {
		path := at.Child("mutations").Index(i)
		if m.JSONPatch != nil && m.PatchType == admissionv1.PatchTypeJSONPatch {
			see(path.Child("jsonPatch", "expression"), m.JSONPatch.Expression, "", with, patchesType)
		}
		if m.ApplyConfiguration != nil && m.PatchType == admissionv1.PatchTypeApplyConfiguration {
			see(path.Child("applyConfiguration", "expression"), m.ApplyConfiguration.Expression, "", with, objectType)
		}
	}
}
