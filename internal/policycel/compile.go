package policycel

import (
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// checkFrequency is after how many steps of a loop an evaluation looks whether it shall end.
const checkFrequency = 100

// Expression is compiled, or says why it could not be.
type Expression struct {
	Text string
	// Err is what is wrong with the expression.
	Err *apiservercel.Error
	// Program evaluates it; nil if it could not be compiled.
	Program cel.Program
	output  *cel.Type
}

// Compiler compiles expressions that share variables.
type Compiler struct {
	root      *environment.EnvSet
	mode      environment.Type
	composed  *apiservercel.DeclType // of the variables; nil if there can be none
	variables map[string]*Expression // complete before anything is evaluated

	mu   sync.Mutex // guards envs
	envs map[Variables]*environment.EnvSet
}

// plain are the compilers of all webhooks, and of all policies without variables: an environment takes milliseconds to
// make, and much memory.
var plain = map[environment.Type]func() *Compiler{
	environment.StoredExpressions: sync.OnceValue(func() *Compiler { return withoutVariables(environment.StoredExpressions) }),
	environment.NewExpressions:    sync.OnceValue(func() *Compiler { return withoutVariables(environment.NewExpressions) }),
}

func withoutVariables(mode environment.Type) *Compiler {
	return &Compiler{root: Base(), mode: mode, envs: map[Variables]*environment.EnvSet{}}
}

// Condition compiles a match condition of a webhook.
func Condition(text string) *Expression {
	return plain[environment.StoredExpressions]().Compile(text, Variables{Authorizer: true}, cel.BoolType)
}

// New is a compiler for the expressions of a policy, which may have variables. Those that are added must not use what
// the version before did not know.
func New(added, variables bool) (*Compiler, error) {
	mode := environment.StoredExpressions
	if added {
		mode = environment.NewExpressions
	}
	if !variables {
		return plain[mode](), nil
	}
	return compose(mode)
}

func compose(mode environment.Type) (*Compiler, error) {
	composed := apiservercel.NewObjectType("kubernetes.variables", map[string]*apiservercel.DeclField{})
	root, err := Base().Extend(environment.VersionedOptions{
		IntroducedVersion: always, EnvOptions: []cel.EnvOption{cel.Variable(VariablesName, composed.CelType())},
		DeclTypes: []*apiservercel.DeclType{composed},
	})
	if err != nil {
		return nil, err
	}
	return &Compiler{root: root, mode: mode, envs: map[Variables]*environment.EnvSet{}, composed: composed, variables: map[string]*Expression{}}, nil
}

func (c *Compiler) env(v Variables) (*cel.Env, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	set := c.envs[v]
	if set == nil {
		root := c.root
		if v.Alone {
			root = Base()
		}
		var err error
		if set, err = extend(root, v); err != nil {
			return nil, err
		}
		c.envs[v] = set
	}
	return set.Env(c.mode)
}

// Invalid is an error of an expression.
func Invalid(text string, cause error) *apiservercel.Error {
	return &apiservercel.Error{Type: apiservercel.ErrorTypeInvalid, Detail: text, Cause: cause}
}

// Internal is an error that no expression is to blame for.
func Internal(text string) *apiservercel.Error {
	return &apiservercel.Error{Type: apiservercel.ErrorTypeInternal, Detail: text}
}

// Compile compiles an expression that must come to one of some types.
func (c *Compiler) Compile(text string, v Variables, returns ...*cel.Type) *Expression {
	e := &Expression{Text: text}
	env, err := c.env(v)
	if err != nil {
		e.Err = Internal(fmt.Sprintf("unexpected error loading CEL environment: %v", err))
		return e
	}
	ast, issues := env.Compile(text)
	if issues != nil {
		e.Err = Invalid("compilation failed: "+issues.String(), apiservercel.NewCompilationError(issues))
		return e
	}
	if !fits(ast.OutputType(), returns) {
		if len(returns) == 1 {
			e.Err = Invalid(fmt.Sprintf("must evaluate to %v but got %v", returns[0], ast.OutputType()), nil)
		} else {
			e.Err = Invalid(fmt.Sprintf("must evaluate to one of %v but got %v", returns, ast.OutputType()), nil)
		}
		return e
	}
	if e.Program, err = env.Program(ast, cel.InterruptCheckFrequency(checkFrequency)); err != nil {
		e.Err = Internal("program instantiation failed: " + err.Error())
		return e
	}
	e.output = ast.OutputType()
	return e
}

func fits(is *cel.Type, wanted []*cel.Type) bool {
	for _, w := range wanted {
		if is.IsExactType(w) || cel.AnyType.IsExactType(w) {
			return true
		}
	}
	return false
}

// Variable compiles an expression that those after it can use by a name.
func (c *Compiler) Variable(name, text string, v Variables) *Expression {
	e := c.Compile(text, v, cel.AnyType, cel.DynType)
	c.declare(name, e)
	return e
}

// declare lets the expressions after it use an expression by a name.
func (c *Compiler) declare(name string, e *Expression) {
	c.composed.Fields[name] = apiservercel.NewDeclField(name, declared(e.output), true, nil, nil)
	c.variables[name] = e
}

// Check compiles an expression that nobody evaluates and that may come to any type. It says what is wrong with it.
func (c *Compiler) Check(text string, v Variables) *Expression {
	e := &Expression{Text: text}
	env, err := c.env(v)
	if err != nil {
		e.Err = Internal(fmt.Sprintf("fail to build env: %v", err))
		return e
	}
	ast, issues := env.Compile(text)
	if issues != nil {
		e.Err = Invalid(issues.String(), nil)
		return e
	}
	e.output = ast.OutputType()
	return e
}

// CheckVariable is Check for an expression that those after it can use by a name.
func (c *Compiler) CheckVariable(name, text string, v Variables) *Expression {
	e := c.Check(text, v)
	c.declare(name, e)
	return e
}

// Composed is the type that holds the variables; nil if there can be none.
func (c *Compiler) Composed() *apiservercel.DeclType { return c.composed }

// Variables are the expressions that others use, by their names.
func (c *Compiler) Variables() map[string]*Expression { return c.variables }

// scalars are the types without parameters, as the types of variables name them.
var scalars = map[*cel.Type]*apiservercel.DeclType{
	cel.AnyType: apiservercel.AnyType, cel.BoolType: apiservercel.BoolType, cel.BytesType: apiservercel.BytesType, cel.DoubleType: apiservercel.DoubleType,
	cel.DurationType: apiservercel.DurationType, cel.IntType: apiservercel.IntType, cel.NullType: apiservercel.NullType, cel.StringType: apiservercel.StringType,
	cel.TimestampType: apiservercel.TimestampType, cel.UintType: apiservercel.UintType,
}

// declared is a type as the types of variables name it.
func declared(t *cel.Type) *apiservercel.DeclType {
	if known, ok := scalars[t]; ok {
		return known
	}
	if t != nil {
		switch inner := t.Parameters(); {
		case t.Kind() == types.ListKind && len(inner) == 1:
			return apiservercel.NewListType(declared(inner[0]), -1)
		case t.Kind() == types.MapKind && len(inner) == 2:
			return apiservercel.NewMapType(declared(inner[0]), declared(inner[1]), -1)
		}
	}
	return apiservercel.DynType
}
