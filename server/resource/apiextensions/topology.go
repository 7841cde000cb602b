package apiextensions

import (
	"sync"

	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// topology is the published schema with which server-side apply merges definitions. The schema that comes with client-go does not contain them.
var topology = sync.OnceValues(func() (managedfields.TypeConverter, error) {
	models := map[string]*spec.Schema{}
	for name, d := range openapi.GetOpenAPIDefinitions(func(path string) spec.Ref { return spec.MustCreateRef("#/components/schemas/" + path) }) {
		s := d.Schema
		models[name] = &s
	}
	models[v1.CustomResourceDefinition{}.OpenAPIModelName()].AddExtension("x-kubernetes-group-version-kind",
		[]any{map[string]any{"group": v1.GroupName, "version": "v1", "kind": "CustomResourceDefinition"}})
	const preserveUnknown = false
	return managedfields.NewTypeConverter(models, preserveUnknown)
})
