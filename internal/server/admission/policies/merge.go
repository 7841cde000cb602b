package policies

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/millrace/millrace/internal/server/admission/attributes"
)

// merged is the object with an apply configuration merged into it. Nobody owns the fields for that.
func (a *alteration) merged(v *attributes.Version, fields map[string]any) (runtime.Object, error) {
	unknown := apierrors.NewServiceUnavailable(fmt.Sprintf("Resource kind %s not found. "+
		"There can be a delay between when CustomResourceDefinitions are created and when they are available.", v.AsKind))
	if a.o.Types == nil {
		return nil, unknown
	}
	types, err := a.o.Types(v.Face())
	if err != nil || types == nil {
		return nil, unknown
	}
	configuration := &unstructured.Unstructured{Object: fields}
	configuration.SetGroupVersionKind(v.AsKind)
	patch, err := types.ObjectToTyped(configuration)
	if err != nil {
		return nil, fmt.Errorf("error applying patch: failed to convert patch object to typed object: %w", err)
	}
	if found := atomics(patch.Schema(), patch.TypeRef(), patch.AsValue(), ""); len(found) > 0 {
		return nil, fmt.Errorf("error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: %v", strings.Join(found, ", "))
	}
	live, err := types.ObjectToTyped(v.New, typed.AllowDuplicates)
	if err != nil {
		return nil, fmt.Errorf("error applying patch: failed to convert original object to typed object: %w", err)
	}
	merged, err := live.Merge(patch)
	if err != nil {
		return nil, fmt.Errorf("error applying patch: failed to merge patch: %w", err)
	}
	made, err := types.TypedToObject(merged)
	if err != nil {
		return nil, fmt.Errorf("error applying patch: failed to convert typed object to object: %w", err)
	}
	text, err := attributes.JSON(made)
	if err != nil {
		return nil, err
	}
	return v.Read(text)
}

// atomics are the paths of all that a configuration would replace as a whole: what it does not name would be lost.
func atomics(s *schema.Schema, of schema.TypeRef, v value.Value, at string) (out []string) {
	atom, ok := s.Resolve(of)
	if !ok {
		return nil
	}
	switch {
	case atom.Map != nil && v.IsMap():
		if atom.Map.ElementRelationship == schema.Atomic {
			out = append(out, at)
		}
		v.AsMap().Iterate(func(key string, inner value.Value) bool {
			if f, ok := atom.Map.FindField(key); ok {
				out = append(out, atomics(s, f.Type, inner, at+"."+key)...)
			}
			return true
		})
	case atom.List != nil && v.IsList():
		if atom.List.ElementRelationship == schema.Atomic {
			out = append(out, at)
		}
		list := v.AsList()
		for i := range list.Length() {
			out = append(out, atomics(s, atom.List.ElementType, list.At(i), fmt.Sprintf("%s[%d]", at, i))...)
		}
	}
	return out
}
