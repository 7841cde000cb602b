package apiregistration

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/managedfields"
	v1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/generated/openapi"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// topology is the published schema with which server-side apply merges the kind. The schema that comes with client-go
// does not contain it.
var topology = sync.OnceValues(func() (managedfields.TypeConverter, error) {
	models := map[string]*spec.Schema{}
	for name, d := range openapi.GetOpenAPIDefinitions(func(path string) spec.Ref { return spec.MustCreateRef("#/components/schemas/" + path) }) {
		s := d.Schema
		models[name] = &s
	}
	models[v1.APIService{}.OpenAPIModelName()].AddExtension("x-kubernetes-group-version-kind",
		[]any{map[string]any{"group": v1.SchemeGroupVersion.Group, "version": "v1", "kind": "APIService"}})
	const preserveUnknown = false
	return managedfields.NewTypeConverter(models, preserveUnknown)
})
