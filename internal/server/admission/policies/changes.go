package policies

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"google.golang.org/protobuf/types/known/structpb"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/cel/mutation"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"

	"github.com/millrace/millrace/internal/policycel"
	"github.com/millrace/millrace/internal/server/admission/expression"
)

// changes are a mutating policy, compiled.
type changes struct {
	err        error
	compiler   *policycel.Compiler
	conditions []expression.Named
	mutations  []mutationOf
	again      bool // if the object has changed after the policy
}

// mutationOf is one mutation: an apply configuration or a JSON patch.
type mutationOf struct {
	*policycel.Expression
	json bool
}

// These are the types that mutations make.
var (
	patchesType = cel.ListType(types.NewObjectType("JSONPatch"))
	objectType  = types.NewObjectType("Object")
)

func compileChanges(p *admissionv1.MutatingAdmissionPolicy) *changes {
	c, err := policycel.New(false, len(p.Spec.Variables) > 0)
	if err != nil {
		return &changes{err: err}
	}
	out := &changes{compiler: c, again: p.Spec.ReinvocationPolicy == admissionv1.IfNeededReinvocationPolicy}
	with := policycel.Variables{Params: p.Spec.ParamKind != nil, Authorizer: true}
	for _, v := range p.Spec.Variables {
		c.Variable(v.Name, v.Expression, with)
	}
	out.conditions = conditions(c, p.Spec.MatchConditions, with)
	with.Patches = true
	for _, m := range p.Spec.Mutations {
		switch {
		case m.PatchType == admissionv1.PatchTypeJSONPatch && m.JSONPatch != nil:
			out.mutations = append(out.mutations, mutationOf{c.Compile(m.JSONPatch.Expression, with, patchesType), true})
		case m.PatchType == admissionv1.PatchTypeApplyConfiguration && m.ApplyConfiguration != nil:
			out.mutations = append(out.mutations, mutationOf{c.Compile(m.ApplyConfiguration.Expression, with, objectType), false})
		}
	}
	return out
}

var errNoPatches = errors.New("type mismatch: JSONPatchType.expression should evaluate to array")

// patchOf is the JSON patch that an expression has made.
func patchOf(v ref.Val) (jsonpatch.Patch, error) {
	all, ok := v.(traits.Lister)
	if !ok {
		return nil, errNoPatches
	}
	var out jsonpatch.Patch
	for it := all.Iterator(); it.HasNext() == types.True; {
		native, err := it.Next().ConvertToNative(reflect.TypeFor[*mutation.JSONPatchVal]())
		if err != nil {
			return nil, fmt.Errorf("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch: %w", err)
		}
		one, err := operationOf(native.(*mutation.JSONPatchVal))
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// operationOf is one operation of a patch.
func operationOf(p *mutation.JSONPatchVal) (jsonpatch.Operation, error) {
	out := jsonpatch.Operation{"op": quoted(p.Op), "path": quoted(p.Path)}
	if p.From != "" {
		out["from"] = quoted(p.From)
	}
	if p.Val == nil {
		return out, nil
	}
	if o, ok := p.Val.(*dynamic.ObjectVal); ok {
		if err := o.CheckTypeNamesMatchFieldPathNames(); err != nil {
			return nil, fmt.Errorf("type mismatch: %w", err)
		}
	}
	native, err := p.Val.ConvertToNative(reflect.TypeFor[*structpb.Value]())
	if err == nil {
		var text []byte
		if text, err = json.Marshal(native); err == nil {
			out["value"] = (*json.RawMessage)(&text)
			return out, nil
		}
	}
	return nil, fmt.Errorf("JSONPath valueExpression evaluated to a type that could not marshal to JSON: %w", err)
}

func quoted(s string) *json.RawMessage {
	text, _ := json.Marshal(s) // a text always can be
	return (*json.RawMessage)(&text)
}

// configurationOf is the apply configuration that an expression has made.
func configurationOf(v ref.Val) (map[string]any, error) {
	o, ok := v.(*dynamic.ObjectVal)
	if !ok {
		return nil, fmt.Errorf("unsupported return type from ApplyConfiguration expression: %v", v.Type())
	}
	if err := o.CheckTypeNamesMatchFieldPathNames(); err != nil {
		return nil, fmt.Errorf("type mismatch: %w", err)
	}
	fields, ok := o.Value().(map[string]any)
	if !ok {
		return nil, fmt.Errorf("invalid return type: %T", v)
	}
	return fields, nil
}
