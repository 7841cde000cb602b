// Package expression evaluates the CEL expressions of webhooks and policies for a request, at Kubernetes' own costs.
//
// An Activation belongs to one request. What evaluating costs is bounded by a budget, which several expressions share.
package expression

import (
	"context"
	"fmt"
	"math"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/lazy"

	"github.com/millrace/millrace/internal/policycel"
	"github.com/millrace/millrace/internal/server/admission/attributes"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/resource/tree"
)

const (
	// Budget is what all expressions of a policy may cost for one binding and parameter.
	Budget = 10_000_000
	// ConditionBudget is what the match conditions of a webhook or of a policy may cost.
	ConditionBudget = 2_500_000
)

// Input is what expressions are about.
type Input struct {
	Version *attributes.Version
	// Params is the parameter of a policy, or nil.
	Params runtime.Object
	// Namespace is that of the object, or nil.
	Namespace *corev1.Namespace
	// Authorize answers questions about permissions; nil if none may be asked.
	Authorize auth.Authorizer
	// Plain shows objects as maps of plain values, out of which patches can be made.
	Plain bool
}

// Activation is the values of variables for one request. It belongs to one goroutine.
type Activation struct {
	*request
	ctx       context.Context
	from      *policycel.Compiler
	variables any    // nil if there are none
	spent     uint64 // by variables since it was looked at last
}

// request is what the activations of a request share. Only object, old and params are made at once: most expressions
// name no others.
type request struct {
	in                                             Input
	object, old, params                            any
	review, namespace, authorizer, resourceChecker any // nil until they are used
}

// Activate prepares values for expressions of a compiler; a nil compiler is that of conditions.
func Activate(ctx context.Context, c *policycel.Compiler, in Input) (*Activation, error) {
	object, err := value(in.Version.New, in.Plain)
	if err != nil {
		return nil, fmt.Errorf("failed to prepare object variable for evaluation: %w", err)
	}
	old, err := value(in.Version.Before, in.Plain)
	if err != nil {
		return nil, fmt.Errorf("failed to prepare oldObject variable for evaluation: %w", err)
	}
	r := &request{in: in, object: object, old: old, params: types.NullValue}
	if in.Params != nil {
		r.params = common.SchemalessTypedToVal(in.Params)
	}
	a := &Activation{request: r, ctx: ctx, from: c}
	a.compose()
	return a, nil
}

// compose adds the variables of the compiler, if there are any.
func (a *Activation) compose() {
	if a.from != nil && a.from.Composed() != nil && len(a.from.Variables()) > 0 {
		a.variables = a.composed(a.from)
	}
}

// Afresh has the same values, and variables that are not evaluated yet: what they cost counts again.
func (a *Activation) Afresh() *Activation {
	again := &Activation{request: a.request, ctx: a.ctx, from: a.from}
	again.compose()
	return again
}

// value is an object for expressions.
func value(o runtime.Object, plain bool) (any, error) {
	if o == nil {
		return types.NullValue, nil
	}
	if u := tree.Of(o); u != nil {
		return types.DefaultTypeAdapter.NativeToValue(u.Object), nil
	}
	if !plain {
		return common.SchemalessTypedToVal(o), nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, err
	}
	return types.DefaultTypeAdapter.NativeToValue(content), nil
}

// Review is what expressions see of a request.
func Review(v *attributes.Version) *admissionv1.AdmissionRequest {
	r := v.Review("")
	r.RequestSubResource = v.View
	if o := v.Options(); o != nil {
		r.Options = runtime.RawExtension{Object: o}
	}
	return r
}

// exposed is a namespace with what expressions may see of it.
func exposed(n *corev1.Namespace) *corev1.Namespace {
	if n == nil {
		return nil
	}
	out := *n
	out.ManagedFields, out.OwnerReferences, out.SelfLink = nil, nil, ""
	return &out
}

// ResolveName implements interpreter.Activation.
func (a *Activation) ResolveName(name string) (any, bool) {
	switch name {
	case policycel.ObjectName:
		return a.object, true
	case policycel.OldObjectName:
		return a.old, true
	case policycel.ParamsName:
		return a.params, true
	case policycel.RequestName:
		if a.review == nil {
			a.review = common.SchemalessTypedToVal(Review(a.in.Version))
		}
		return a.review, true
	case policycel.NamespaceName:
		if a.namespace == nil {
			a.namespace = common.SchemalessTypedToVal(exposed(a.in.Namespace))
		}
		return a.namespace, true
	case policycel.VariablesName:
		return a.variables, a.variables != nil
	case policycel.AuthorizerName, policycel.CheckName:
		if a.in.Authorize == nil {
			return nil, false
		}
		if a.authorizer == nil {
			a.authorizer, a.resourceChecker = authorizers(a.in)
		}
		if name == policycel.AuthorizerName {
			return a.authorizer, true
		}
		return a.resourceChecker, true
	}
	return nil, false
}

// Parent implements interpreter.Activation.
func (a *Activation) Parent() interpreter.Activation { return nil }

// composed is the variables of a policy. They are evaluated when they are used, once.
func (a *Activation) composed(c *policycel.Compiler) ref.Val {
	all := lazy.NewMapValue(c.Composed())
	for name, e := range c.Variables() {
		all.Append(name, func(*lazy.MapValue) ref.Val { return a.variable(name, e) })
	}
	return all
}

func (a *Activation) variable(name string, e *policycel.Expression) ref.Val {
	if e.Err != nil {
		return types.NewErr("composited variable %q fails to compile: %v", name, e.Err)
	}
	v, details, err := e.Program.ContextEval(a.ctx, a)
	if details == nil {
		return types.NewErr("unable to get evaluation details of variable %q", name)
	}
	cost := details.ActualCost()
	if cost == nil {
		return types.NewErr("unable to calculate cost of variable %q", name)
	}
	a.spent += min(*cost, math.MaxInt64)
	if err != nil {
		return types.NewErr("composited variable %q fails to evaluate: %v", name, err)
	}
	return v
}

var errBudget = policycel.Invalid("validation failed due to running out of cost budget, no further validation rules will be run", apiservercel.ErrOutOfBudget)

// Evaluate comes to a value, or to why there is none. It takes what that costs from a budget; an err means that the
// budget is spent.
func (a *Activation) Evaluate(e *policycel.Expression, budget *int64) (out ref.Val, failed, err error) {
	switch {
	case e.Err != nil:
		return nil, policycel.Invalid(fmt.Sprintf("compilation error: %v", e.Err), e.Err), nil
	case e.Program == nil:
		return nil, policycel.Internal("unexpected internal error compiling expression"), nil
	}
	out, details, failed := e.Program.ContextEval(a.ctx, a)
	spent := a.spent
	a.spent = 0
	var cost *uint64
	if details != nil {
		cost = details.ActualCost()
	}
	if cost == nil {
		return nil, nil, policycel.Invalid(fmt.Sprintf("runtime cost could not be calculated for expression: %v, no further expression will be run", e.Text), apiservercel.ErrOutOfBudget)
	}
	if spent > uint64(*budget) || *cost > uint64(*budget)-spent {
		*budget = -1
		return nil, nil, errBudget
	}
	*budget -= int64(spent + *cost)
	if failed != nil {
		return nil, policycel.Invalid(fmt.Sprintf("expression '%v' resulted in error: %v", e.Text, failed), nil), nil
	}
	return out, nil, nil
}
