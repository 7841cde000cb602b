package schema

import (
	"context"
	"fmt"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"

	"github.com/millrace/millrace/internal/server/resource/tree"
)

// Prune drops from an object what the schema does not know, and nulls that mean nothing. It returns what it has found,
// as strict decoding calls it. An object whose metadata is none is an error.
func (s *Schema) Prune(object map[string]any) (unknown []error, err error) {
	const clients = false
	return s.prune(object, clients)
}

// PruneStored does the same to an object that was stored, perhaps under another schema: what is wrong with its metadata
// is dropped.
func (s *Schema) PruneStored(object map[string]any) error {
	const stored = true
	_, err := s.prune(object, stored)
	return err
}

// PruneConverted does the same to an object that was converted to this version.
func (s *Schema) PruneConverted(object map[string]any) error {
	c, err := s.compile()
	if err != nil || c.plan.Complete(object) && hasGeneration(object) {
		return err
	}
	return s.PruneStored(object)
}

func (s *Schema) prune(object map[string]any, stored bool) (unknown []error, err error) {
	c, err := s.compile()
	if err != nil || c.plan.Complete(object) && !stored {
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

// Complete makes of an object that was stored, perhaps under another schema, what it is under this one.
func (s *Schema) Complete(object map[string]any) error {
	c, err := s.compile()
	if err != nil || c.plan.Complete(object) && hasGeneration(object) {
		return err
	}
	if err := s.PruneStored(object); err != nil {
		return err
	}
	return s.Default(object)
}

// hasGeneration tells that an object has one. Those that were stored before there were any get their first when they
// are read.
func hasGeneration(object map[string]any) bool {
	meta, _ := object["metadata"].(map[string]any)
	return meta["generation"] != nil
}

// Whole tells that Complete would leave an object as it is, which is given as text, and then whether the text has
// nothing odd.
func (s *Schema) Whole(text []byte) (whole, plain bool) {
	c, err := s.compile()
	if err != nil {
		return false, false
	}
	return c.plan.Whole(text)
}

// Default fills in what was left out.
func (s *Schema) Default(object map[string]any) error {
	c, err := s.compile()
	if err != nil || c.plan.Complete(object) {
		return err
	}
	defaulting.Default(object, c.tree)
	return nil
}

// Fits tells that neither Prune nor Default would change an object, and that nothing is wrong with it, CEL rules aside.
// A no means nothing.
func (s *Schema) Fits(o *tree.Object) bool {
	c, err := s.compile()
	return err == nil && c.plan != nil && o.Check(c.plan, func() bool { return c.plan.Fits(o) })
}

// Obeys tells that no CEL rule is broken. A no means nothing.
func (s *Schema) Obeys(ctx context.Context, o *tree.Object) bool {
	c, err := s.compile()
	return err == nil && c.hold().Hold(ctx, o)
}
