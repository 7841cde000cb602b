// Package rules evaluates the CEL rules of a schema where all of them hold.
//
// What is guaranteed: where Hold says yes, Kubernetes' published package finds no rule broken, whether or not there was
// an object before. What may not be assumed: that a no means anything. Rules that compare with an older object, that
// stand at the root, in an allOf or in an embedded object get one, and so does everything that fails. Then the
// published package decides, in its own words.
//
// The programs and the values are those of the published packages. What is saved is what these make anew for each
// value: a map of all properties of its schema, and the correlation with the older object, which only matters for rules
// that are broken.
package rules

import (
	"context"
	"math"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/millrace/millrace/internal/server/resource/tree"
)

// Rules are those of one schema. They never change.
type Rules struct {
	root   *node // nil if there are none
	budget int64
}

// node has the rules for one value and for its parts.
type node struct {
	programs   []cel.CompilationResult
	schema     common.Schema // of programs
	properties map[string]*node
	additional *node
	items      *node
}

// Compile makes rules with Kubernetes' bounds on what they may cost: each of them, and all of one object. It is nil if
// a schema has rules that are left to the published package.
func Compile(s *structural.Structural, limit uint64, budget int64) *Rules {
	if !hasRules(s) { // then nothing has to be declared, which takes as long as all else that is compiled
		return &Rules{budget: budget}
	}
	c := compiler{limit: limit}
	root := c.compile(s, model.SchemaDeclType(s, true))
	if c.unusual || root != nil && len(root.programs) > 0 {
		return nil
	}
	return &Rules{root, budget}
}

type compiler struct {
	limit   uint64
	unusual bool
}

// compile returns nil if there are no rules for a value or for its parts.
func (c *compiler) compile(s *structural.Structural, declared *apiservercel.DeclType) *node {
	if !hasRules(s) {
		return nil
	}
	c.unusual = c.unusual || declared == nil || s.XEmbeddedResource || rulesInAllOf(s)
	if c.unusual {
		return nil
	}
	n := &node{}
	if len(s.XValidations) > 0 {
		n.schema = cached(s)
		n.programs = c.programs(s, declared)
	}
	for name, p := range s.Properties {
		if !hasRules(&p) {
			continue
		}
		escaped, ok := apiservercel.Escape(name)
		field, known := declared.Fields[escaped]
		if !ok || !known {
			c.unusual = true
			return nil
		}
		if n.properties == nil {
			n.properties = map[string]*node{}
		}
		n.properties[name] = c.compile(&p, field.Type)
	}
	if s.Items != nil {
		n.items = c.compile(s.Items, declared.ElemType)
	}
	if a := s.AdditionalProperties; a != nil && a.Structural != nil {
		n.additional = c.compile(a.Structural, declared.ElemType)
	}
	return n
}

// programs compiles the rules for one value.
func (c *compiler) programs(s *structural.Structural, declared *apiservercel.DeclType) []cel.CompilationResult {
	all, err := cel.Compile(s, declared, c.limit, environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()), cel.StoredExpressionsEnvLoader())
	c.unusual = c.unusual || err != nil
	for i := range all {
		optional := s.XValidations[i].OptionalOldSelf
		c.unusual = c.unusual || all[i].Error != nil || all[i].UsesOldSelf || optional != nil && *optional
	}
	return all
}

func hasRules(s *structural.Structural) bool {
	if len(s.XValidations) > 0 || rulesInAllOf(s) || s.Items != nil && hasRules(s.Items) {
		return true
	}
	if a := s.AdditionalProperties; a != nil && a.Structural != nil && hasRules(a.Structural) {
		return true
	}
	for _, p := range s.Properties {
		if hasRules(&p) {
			return true
		}
	}
	return false
}

func rulesInAllOf(s *structural.Structural) bool {
	if s.ValueValidation == nil {
		return false
	}
	for i := range s.ValueValidation.AllOf {
		if hasNestedRules(&s.ValueValidation.AllOf[i]) {
			return true
		}
	}
	return false
}

func hasNestedRules(v *structural.NestedValueValidation) bool {
	if len(v.ValidationExtensions.XValidations) > 0 || v.Items != nil && hasNestedRules(v.Items) ||
		v.AdditionalProperties != nil && hasNestedRules(v.AdditionalProperties) {
		return true
	}
	for _, p := range v.Properties {
		if hasNestedRules(&p) {
			return true
		}
	}
	for i := range v.AllOf {
		if hasNestedRules(&v.AllOf[i]) {
			return true
		}
	}
	return false
}

// Hold tells that no rule is broken.
func (r *Rules) Hold(ctx context.Context, o *tree.Object) bool {
	if r == nil {
		return false
	}
	if r.root == nil {
		return true
	}
	e := evaluation{ctx: ctx, budget: r.budget}
	parts := o.All()
	for i := range parts {
		if n := r.root.of(parts[i].Name); n != nil && !e.hold(n, parts[i].Value()) {
			return false
		}
	}
	return true
}

// of returns the rules for a part of a map, or nil.
func (n *node) of(name string) *node {
	if p := n.properties[name]; p != nil {
		return p
	}
	return n.additional
}

type evaluation struct {
	ctx    context.Context
	budget int64
}

func (e *evaluation) hold(n *node, value any) bool {
	if value == nil {
		return true // as in Kubernetes
	}
	if len(n.programs) > 0 && !e.allTrue(n, value) {
		return false
	}
	switch v := value.(type) {
	case map[string]any:
		if n.properties == nil && n.additional == nil {
			return true
		}
		for name, inner := range v {
			if p := n.of(name); p != nil && !e.hold(p, inner) {
				return false
			}
		}
	case []any:
		if n.items == nil {
			return true
		}
		for _, inner := range v {
			if !e.hold(n.items, inner) {
				return false
			}
		}
	}
	return true
}

func (e *evaluation) allTrue(n *node, value any) bool {
	self := &activation{self: common.UnstructuredToVal(value, n.schema)}
	for i := range n.programs {
		if n.programs[i].Program == nil { // an empty rule
			continue
		}
		result, details, err := n.programs[i].Program.ContextEval(e.ctx, self)
		if err != nil || result != types.True || details == nil {
			return false
		}
		cost := details.ActualCost()
		if cost == nil || *cost > math.MaxInt64 || int64(*cost) > e.budget {
			return false
		}
		if e.budget -= int64(*cost); e.budget <= 0 {
			return false
		}
	}
	return true
}

// activation is what a program knows by name.
type activation struct{ self ref.Val }

// ResolveName implements interpreter.Activation.
func (a *activation) ResolveName(name string) (any, bool) {
	if name == cel.ScopedVarName {
		return a.self, true
	}
	return nil, false
}

// Parent implements interpreter.Activation.
func (a *activation) Parent() interpreter.Activation { return nil }
