// Package schema is what a definition demands of the objects of one version: structural schemas, as Kubernetes has
// them.
//
// What is guaranteed: nothing is compiled before it is needed, neither the schema nor its CEL rules, and what was
// compiled is shared by all who ask, until Rest finds that nobody has asked for it. Findings are Kubernetes', word by
// word: its published packages make them.
package schema

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"

	"github.com/millrace/millrace/internal/server/custom/schema/plan"
	"github.com/millrace/millrace/internal/server/custom/schema/rules"
)

// Schema is the schema of one version.
type Schema struct {
	source Source
	// made compiles the schema when it is first called.
	made atomic.Pointer[func() (*compiled, error)]
	used atomic.Bool // since the last Rest
}

// compiled is what a schema becomes.
type compiled struct {
	// tree is nil if the definition has no schema.
	tree     *structural.Structural
	preserve bool
	// plan finds at little cost that nothing has to be done; nil finds nothing.
	plan *plan.Plan
	// checks are of what the plan does not find valid: few objects, so the schema is read once more for them.
	checks func() (*checks, error)
	rules  func() *cel.Validator // CEL
	hold   func() *rules.Rules   // the same, where all of them hold
}

// checks are Kubernetes' of a whole object, and of its status alone; that is nil if the schema says nothing of it.
type checks struct{ whole, status validation.SchemaValidator }

// Source reads the schema of a version, which may be nil, and tells whether unknown fields are preserved everywhere.
type Source func() (schema *v1.CustomResourceValidation, preserve bool, err error)

// New makes a schema of what its source says when it is first needed.
func New(source Source) *Schema {
	s := &Schema{source: source}
	s.forget()
	return s
}

// Rest drops what was compiled if it has not been used since the call before. It is compiled again when it is next
// needed.
func (s *Schema) Rest() {
	if !s.used.Swap(false) {
		s.forget()
	}
}

func (s *Schema) forget() {
	made := sync.OnceValues(s.source.compile)
	s.made.Store(&made)
}

func (s *Schema) compile() (*compiled, error) {
	if !s.used.Load() { // a write would take the cache line from all other readers
		s.used.Store(true)
	}
	return (*s.made.Load())()
}

// Tree is the structural schema, nil if there is none.
func (s *Schema) Tree() (*structural.Structural, error) {
	c, err := s.compile()
	if err != nil {
		return nil, err
	}
	return c.tree, nil
}

func (source Source) compile() (*compiled, error) {
	props, preserve, err := source.read()
	if err != nil {
		return nil, err
	}
	c := &compiled{preserve: preserve, checks: sync.OnceValues(source.makeChecks)}
	if err := c.compileTree(props); err != nil {
		return nil, err
	}
	if !c.preserve {
		c.plan = plan.Compile(c.tree)
	}
	c.rules = sync.OnceValue(func() *cel.Validator {
		if c.tree == nil {
			return nil
		}
		const isRoot = true
		return cel.NewValidator(c.tree, isRoot, costLimit)
	})
	c.hold = sync.OnceValue(func() *rules.Rules {
		if c.tree == nil {
			return nil
		}
		return rules.Compile(c.tree, costLimit, costBudget)
	})
	return c, nil
}

// read returns the schema as Kubernetes' packages take it.
func (source Source) read() (props *apiextensions.JSONSchemaProps, preserve bool, err error) {
	from, preserve, err := source()
	if err != nil {
		return nil, false, fmt.Errorf("read the schema: %w", err)
	}
	if from == nil {
		return nil, preserve, nil
	}
	var internal apiextensions.CustomResourceValidation
	if err := v1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(from, &internal, nil); err != nil {
		return nil, false, fmt.Errorf("convert the schema: %w", err)
	}
	return internal.OpenAPIV3Schema, preserve, nil
}

func (source Source) makeChecks() (*checks, error) {
	props, _, err := source.read()
	if err != nil {
		return nil, err
	}
	c := &checks{}
	if c.whole, _, err = validation.NewSchemaValidator(props); err != nil {
		return nil, fmt.Errorf("compile the schema: %w", err)
	}
	if props != nil {
		if status, ok := props.Properties["status"]; ok {
			if c.status, _, err = validation.NewSchemaValidator(&status); err != nil {
				return nil, fmt.Errorf("compile the schema of the status: %w", err)
			}
		}
	}
	return c, nil
}

var errNotStructural = errors.New("the schema is not structural")

func (c *compiled) compileTree(props *apiextensions.JSONSchemaProps) error {
	if props == nil {
		return nil
	}
	tree, err := structural.NewStructural(props)
	switch {
	case err != nil && c.preserve:
		return nil
	case err != nil:
		return fmt.Errorf("%w: %w", errNotStructural, err)
	case !c.preserve:
		if err := defaulting.PruneDefaults(tree); err != nil {
			return fmt.Errorf("prune the defaults of the schema: %w", err)
		}
	}
	c.tree = tree
	return nil
}
