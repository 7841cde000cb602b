package custom_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/millracetest"
)

// sample makes objects of 1 KB: of a custom resource, and a config map for comparison.
type sample struct {
	resource schema.GroupVersionResource
	patch    string
	make     func(name string) *unstructured.Unstructured
}

var samples = map[string]sample{
	"custom": {tabs, `{"spec":{"replicas":%d}}`, func(name string) *unstructured.Unstructured {
		u := tab(name, "{color: red}")
		u.SetAnnotations(map[string]string{"text": strings.Repeat("x", 700)})
		return u
	}},
	"configmap": {schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, `{"data":{"n":"%d"}}`, func(name string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"color": "red"}}}
		u.SetName(name)
		u.SetAnnotations(map[string]string{"text": strings.Repeat("x", 700)})
		return u
	}},
}

// BenchmarkBesideConfigMaps compares custom resources with config maps of the same size, client included.
func BenchmarkBesideConfigMaps(b *testing.B) {
	c := millracetest.Start(b, millrace.Options{Nodes: -1, Controllers: []string{}})
	config := c.Config()
	config.QPS = -1
	d, err := dynamic.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	defineFor(b, d)
	for name, s := range samples {
		n := d.Resource(s.resource).Namespace("default")
		first := s.make("first")
		try(b)(n.Create(b.Context(), first, metav1.CreateOptions{}))
		i := 0
		for verb, do := range map[string]func() (*unstructured.Unstructured, error){
			"create": func() (*unstructured.Unstructured, error) {
				return n.Create(b.Context(), s.make(fmt.Sprintf("o%d", i)), metav1.CreateOptions{})
			},
			"get": func() (*unstructured.Unstructured, error) { return n.Get(b.Context(), "first", metav1.GetOptions{}) },
			"patch": func() (*unstructured.Unstructured, error) {
				return n.Patch(b.Context(), "first", types.MergePatchType, fmt.Appendf(nil, s.patch, i), metav1.PatchOptions{})
			},
			"apply": func() (*unstructured.Unstructured, error) {
				return n.Apply(b.Context(), "applied", s.make("applied"), metav1.ApplyOptions{FieldManager: "m", Force: true})
			},
		} {
			b.Run(verb+"/"+name, func(b *testing.B) {
				for b.Loop() {
					i++
					try(b)(do())
				}
			})
		}
	}
}

func try(b *testing.B) func(*unstructured.Unstructured, error) {
	return func(_ *unstructured.Unstructured, err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
}

func defineFor(b *testing.B, d dynamic.Interface) {
	b.Helper()
	made, err := d.Resource(definitions).Create(b.Context(), parse(b, definition), metav1.CreateOptions{})
	for ; err == nil && condition(made, "Established") != "True"; made, err = d.Resource(definitions).Get(b.Context(), "tabs.example.com", metav1.GetOptions{}) {
	}
	if err != nil {
		b.Fatal(err)
	}
}
