package schema

import (
	"fmt"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
)

// Prune drops from an object what the schema does not know, and nulls that mean nothing. It returns what it has found, as
// strict decoding calls it. An object whose metadata is none is an error.
func (s *Schema) Prune(object map[string]any) (unknown []error, err error) {
	const clients = false
	return s.prune(object, clients)
}

// PruneStored does the same to an object that was stored, perhaps under another schema: what is wrong with its metadata is
// dropped.
func (s *Schema) PruneStored(object map[string]any) error {
	const stored = true
	_, err := s.prune(object, stored)
	return err
}

func (s *Schema) prune(object map[string]any, stored bool) (unknown []error, err error) {
	c, err := s.compile()
	if err != nil {
		return nil, err
	}
	kind, hasKind := object["kind"]
	version, hasVersion := object["apiVersion"]
	meta, hasMeta, paths, err := objectmeta.GetObjectMetaWithOptions(object, objectmeta.ObjectMetaOptions{
		DropMalformedFields: stored, ReturnUnknownFieldPaths: !stored,
	})
	if err != nil {
		return nil, err
	}
	if !c.preserve {
		paths = append(paths, pruning.PruneWithOptions(object, c.tree, true, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: !stored})...)
		defaulting.PruneNonNullableNullsWithoutDefaults(object, c.tree)
	}
	fault, more := objectmeta.CoerceWithOptions(nil, object, c.tree, false, objectmeta.CoerceOptions{DropInvalidFields: stored, ReturnUnknownFieldPaths: !stored})
	if fault != nil {
		return nil, fault
	}
	if hasKind {
		object["kind"] = kind
	}
	if hasVersion {
		object["apiVersion"] = version
	}
	if hasMeta {
		if stored && meta.Generation == 0 {
			meta.Generation = 1
		}
		if err := objectmeta.SetObjectMeta(object, meta); err != nil {
			return nil, err
		}
	}
	for _, path := range append(paths, more...) {
		unknown = append(unknown, fmt.Errorf(`unknown field "%s"`, path))
	}
	return unknown, nil
}

// Default fills in what was left out.
func (s *Schema) Default(object map[string]any) error {
	c, err := s.compile()
	if err != nil {
		return err
	}
	defaulting.Default(object, c.tree)
	return nil
}
