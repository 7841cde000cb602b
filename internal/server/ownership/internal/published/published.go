// Package published has the schema that Kubernetes publishes of its own kinds: how their fields are owned and merged.
// It takes a hundred milliseconds to make, so it is for the generator of what is kept, and for the test that compares
// the two.
package published

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

// Types are those of client-go's schema, and of definitions, which that has not.
func Types() ([]schema.TypeDef, error) {
	pod := &corev1.Pod{}
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	all, err := with(applyconfigurations.NewTypeConverter(scheme.Scheme), pod)
	if err != nil {
		return nil, err
	}
	more, err := ofDefinitions()
	return append(all, more...), err
}

// prefix is what the names of the types of definitions begin with.
const prefix = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."

func ofDefinitions() ([]schema.TypeDef, error) {
	models := map[string]*spec.Schema{}
	for name, d := range openapi.GetOpenAPIDefinitions(func(path string) spec.Ref { return spec.MustCreateRef("#/components/schemas/" + path) }) {
		s := d.Schema
		models[name] = &s
	}
	gvk := apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")
	models[apiextensionsv1.CustomResourceDefinition{}.OpenAPIModelName()].AddExtension("x-kubernetes-group-version-kind",
		[]any{map[string]any{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind}})
	const preserveUnknown = false
	c, err := managedfields.NewTypeConverter(models, preserveUnknown)
	if err != nil {
		return nil, err
	}
	d := &apiextensionsv1.CustomResourceDefinition{}
	d.SetGroupVersionKind(gvk)
	all, err := with(c, d)
	if err != nil {
		return nil, err
	}
	own := slices.DeleteFunc(slices.Clone(all), func(t schema.TypeDef) bool { return !strings.HasPrefix(t.Name, prefix) })
	slices.SortFunc(own, func(a, b schema.TypeDef) int { return cmp.Compare(a.Name, b.Name) })
	for i := range own {
		own[i].Map = sorted(own[i].Map)
	}
	return own, nil
}

// sorted is a copy with the fields by their names. The library has them in the order of a Go map.
func sorted(m *schema.Map) *schema.Map {
	if m == nil {
		return nil
	}
	fields := slices.Clone(m.Fields)
	slices.SortFunc(fields, func(a, b schema.StructField) int { return cmp.Compare(a.Name, b.Name) })
	return &schema.Map{Fields: fields, Unions: m.Unions, ElementType: m.ElementType, ElementRelationship: m.ElementRelationship}
}

// with returns the types of a schema that has those of an object.
func with(c managedfields.TypeConverter, o runtime.Object) ([]schema.TypeDef, error) {
	typed, err := c.ObjectToTyped(o)
	if err != nil {
		return nil, err
	}
	return typed.Schema().Types, nil
}
