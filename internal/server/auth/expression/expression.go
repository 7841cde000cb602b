// Package expression compiles and evaluates the CEL expressions of authentication and authorization configurations,
// with the variables and libraries that kube-apiserver gives them.
//
// An Expression never changes and may be evaluated by many goroutines. Evaluating ends early when its context ends.
package expression

import (
	"context"
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/millrace/millrace/internal/policycel"
)

// always is the version of what every environment has.
var always = version.MajorMinor(1, 0)

// checkFrequency is after how many steps of a loop an evaluation looks whether it shall end.
const checkFrequency = 100

// Expression is a compiled expression about one variable.
type Expression struct {
	Text     string
	variable string
	ast      *cel.Ast
	program  cel.Program
}

// variable makes the environment in which expressions name one variable.
func variable(name string, of *apiservercel.DeclType, declared ...*apiservercel.DeclType) func() (*cel.Env, error) {
	return sync.OnceValues(func() (*cel.Env, error) {
		set, err := policycel.Base().Extend(environment.VersionedOptions{
			IntroducedVersion: always, EnvOptions: []cel.EnvOption{cel.Variable(name, of.CelType())}, DeclTypes: declared,
		})
		if err != nil {
			return nil, err
		}
		return set.Env(environment.StoredExpressions)
	})
}

// compile compiles an expression about a variable that must come to one of some types; cel.AnyType is all of them.
func compile(environment func() (*cel.Env, error), variable, text string, returns *cel.Type) (*Expression, *apiservercel.Error) {
	env, err := environment()
	if err != nil {
		return nil, internal(fmt.Sprintf("unexpected error loading CEL environment: %v", err))
	}
	checked, issues := env.Compile(text)
	if issues != nil {
		return nil, invalid("compilation failed: " + issues.String())
	}
	if !returns.IsExactType(cel.AnyType) && !checked.OutputType().IsExactType(returns) {
		return nil, invalid(fmt.Sprintf("must evaluate to %v", returns))
	}
	program, err := env.Program(checked, cel.InterruptCheckFrequency(checkFrequency))
	if err != nil {
		return nil, internal("program instantiation failed: " + err.Error())
	}
	return &Expression{Text: text, variable: variable, ast: checked, program: program}, nil
}

func invalid(text string) *apiservercel.Error {
	return &apiservercel.Error{Type: apiservercel.ErrorTypeInvalid, Detail: text}
}

func internal(text string) *apiservercel.Error {
	return &apiservercel.Error{Type: apiservercel.ErrorTypeInternal, Detail: text}
}

// Evaluate comes to the expression's value for a value of its variable.
func (e *Expression) Evaluate(ctx context.Context, value any) (ref.Val, error) {
	out, _, err := e.program.ContextEval(ctx, one{e.variable, value})
	if err != nil {
		return nil, fmt.Errorf("expression '%s' resulted in error: %w", e.Text, err)
	}
	return out, nil
}

// one is an activation of one variable.
type one struct {
	name  string
	value any
}

// ResolveName implements interpreter.Activation.
func (o one) ResolveName(name string) (any, bool) { return o.value, name == o.name }

// Parent implements interpreter.Activation.
func (o one) Parent() interpreter.Activation { return nil }

// Names tells whether the expression selects a field of its variable, as in claims.email or claims.?email.
func (e *Expression) Names(field string) bool {
	found := ast.MatchDescendants(ast.NavigateAST(e.ast.NativeRep()), func(n ast.NavigableExpr) bool {
		switch n.Kind() {
		case ast.SelectKind:
			s := n.AsSelect()
			return s.FieldName() == field && e.is(s.Operand())
		case ast.CallKind:
			c := n.AsCall()
			args := c.Args()
			if c.FunctionName() != operators.OptSelect || len(args) != 2 || args[1].Kind() != ast.LiteralKind {
				return false
			}
			return e.is(args[0]) && args[1].AsLiteral().Value() == field
		}
		return false
	})
	return len(found) > 0
}

// is tells whether a part of the expression is the variable itself.
func (e *Expression) is(part ast.Expr) bool {
	return part.Kind() == ast.IdentKind && part.AsIdent() == e.variable
}
