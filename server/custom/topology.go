package custom

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// topology tells how server-side apply merges the objects of a definition, in all its versions.
type topology = func() (managedfields.TypeConverter, error)

// topology is made when something is first tracked.
func (d *definition) topology(kind string) topology {
	return sync.OnceValues(func() (managedfields.TypeConverter, error) {
		models := map[string]*spec.Schema{metadataModel: metadata()}
		for name, v := range d.versions {
			tree, err := v.schema.Tree()
			if err != nil {
				return nil, err
			}
			s := objectOf(nil)
			s.AddExtension("x-kubernetes-preserve-unknown-fields", true)
			if tree != nil {
				s = tree.ToKubeOpenAPI()
			}
			embed(s)
			asResource(s)
			s.AddExtension("x-kubernetes-group-version-kind", []any{map[string]any{"group": d.identity.Group, "version": name, "kind": kind}})
			models[fmt.Sprintf("%s.%s.%s", d.identity.Group, name, kind)] = s
		}
		const preserveUnknown = false
		return managedfields.NewTypeConverter(models, preserveUnknown)
	})
}

// metadataModel is the name of what all objects have in common. It stands by itself: what an object lets pass that has it does not hold
// for the metadata.
const metadataModel = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

// asResource adds what every object has.
func asResource(s *spec.Schema) {
	if s.Properties == nil {
		s.Properties = map[string]spec.Schema{}
	}
	s.Properties["apiVersion"] = *spec.StringProperty()
	s.Properties["kind"] = *spec.StringProperty()
	s.Properties["metadata"] = *spec.RefSchema("#/components/schemas/" + metadataModel)
}

// embed adds to objects within an object what every object has.
func embed(s *spec.Schema) {
	for name, p := range s.Properties {
		embed(&p)
		s.Properties[name] = p
	}
	if s.Items != nil && s.Items.Schema != nil {
		embed(s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		embed(s.AdditionalProperties.Schema)
	}
	if embedded, _ := s.Extensions.GetBool("x-kubernetes-embedded-resource"); embedded {
		asResource(s)
	}
}

func objectOf(properties map[string]spec.Schema) *spec.Schema {
	return &spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}, Properties: properties}}
}

// metadata is the schema of all objects' metadata.
func metadata() *spec.Schema {
	text, number := *spec.StringProperty(), *spec.Int64Property()
	finalizers := spec.ArrayProperty(&text)
	finalizers.AddExtension("x-kubernetes-list-type", "set")
	owner := objectOf(map[string]spec.Schema{
		"apiVersion": text, "kind": text, "name": text, "uid": text, "controller": *spec.BooleanProperty(), "blockOwnerDeletion": *spec.BooleanProperty(),
	})
	owner.AddExtension("x-kubernetes-map-type", "atomic")
	owners := spec.ArrayProperty(owner)
	owners.AddExtension("x-kubernetes-list-type", "map")
	owners.AddExtension("x-kubernetes-list-map-keys", []any{"uid"})
	entry := objectOf(nil)
	entry.AddExtension("x-kubernetes-preserve-unknown-fields", true)
	entries := spec.ArrayProperty(entry)
	entries.AddExtension("x-kubernetes-list-type", "atomic")
	return objectOf(map[string]spec.Schema{
		"name": text, "generateName": text, "namespace": text, "selfLink": text, "uid": text, "resourceVersion": text,
		"generation": number, "deletionGracePeriodSeconds": number, "creationTimestamp": text, "deletionTimestamp": text,
		"labels": *spec.MapProperty(&text), "annotations": *spec.MapProperty(&text),
		"finalizers": *finalizers, "ownerReferences": *owners, "managedFields": *entries,
	})
}
