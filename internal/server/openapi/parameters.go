package openapi

import (
	"cmp"
	"crypto/sha512"
	"encoding/base64"
	"maps"
	"reflect"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/gotypes"
)

// query returns the parameters for an options struct, into which Kubernetes decodes queries.
func query[T any]() []Parameter { return queryOf(reflect.TypeFor[T]()) }

func queryOf(t reflect.Type) []Parameter {
	var out []Parameter
	docs := describe(t)
	for f := range gotypes.Fields(t) {
		kind := queryType(f.Type)
		if f.JSON != "" && kind != "" && f.JSON != "shardSelector" { // sharding is not supported
			out = append(out, Parameter{Name: f.JSON, Description: docs[f.JSON], Type: kind})
		}
	}
	return sorted(out)
}

// queryType returns the type of a parameter; empty if a query cannot hold it.
func queryType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return queryType(t.Elem())
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "integer"
	}
	return ""
}

func sorted(p []Parameter) []Parameter {
	slices.SortFunc(p, func(a, b Parameter) int { return cmp.Compare(a.Name, b.Name) })
	return p
}

func without(p []Parameter, names ...string) []Parameter {
	return slices.DeleteFunc(slices.Clone(p), func(p Parameter) bool { return slices.Contains(names, p.Name) })
}

// union returns the parameters of several lists without duplicates.
func union(lists ...[]Parameter) []Parameter {
	all := sorted(slices.Concat(lists...))
	return slices.CompactFunc(all, func(a, b Parameter) bool { return a.Name == b.Name })
}

var (
	pretty    = Parameter{Name: "pretty", Description: "If 'true', then the output is pretty printed.", Type: "string"}
	namespace = Parameter{Name: "namespace", Description: "object name and auth scope, such as for teams and projects", Type: "string", InPath: true}
	rest      = Parameter{Name: "path", Description: "path to the resource", Type: "string", InPath: true}
)

func objectName(kind string) Parameter {
	return Parameter{Name: "name", Description: "name of the " + kind, Type: "string", InPath: true}
}

// shared are the parameters that version 2 describes once, and to which its paths refer. Clients find out by dryRun and
// fieldValidation what a server can do, and not all of them follow references, so these two are where they belong.
var shared = sync.OnceValue(func() map[Parameter]string {
	lists := [][]Parameter{
		{pretty, namespace, rest}, query[metav1.ListOptions](), query[metav1.CreateOptions](), query[metav1.UpdateOptions](),
		query[metav1.PatchOptions](), query[metav1.DeleteOptions](), query[corev1.PodLogOptions](),
	}
	for _, t := range connections {
		lists = append(lists, queryOf(t))
	}
	names := map[Parameter]string{}
	for _, p := range slices.Concat(lists...) {
		if p.Name == "dryRun" || p.Name == "fieldValidation" {
			continue
		}
		hash := sha512.Sum512([]byte(p.place() + p.Type + p.Description))
		names[p] = p.Name + "-" + base64.RawURLEncoding.EncodeToString(hash[:6])
	}
	return names
})

const sharedPrefix = "#/parameters/"

// inOrder are the shared parameters, sorted by their names in the document.
func inOrder() []Parameter {
	names := shared()
	return slices.SortedFunc(maps.Keys(names), func(a, b Parameter) int { return cmp.Compare(names[a], names[b]) })
}

// connections are the option types of streaming subresources, by the kind that discovery shows.
var connections = map[string]reflect.Type{
	"PodExecOptions":        reflect.TypeFor[corev1.PodExecOptions](),
	"PodAttachOptions":      reflect.TypeFor[corev1.PodAttachOptions](),
	"PodPortForwardOptions": reflect.TypeFor[corev1.PodPortForwardOptions](),
	"PodProxyOptions":       reflect.TypeFor[corev1.PodProxyOptions](),
	"NodeProxyOptions":      reflect.TypeFor[corev1.NodeProxyOptions](),
	"ServiceProxyOptions":   reflect.TypeFor[corev1.ServiceProxyOptions](),
}
