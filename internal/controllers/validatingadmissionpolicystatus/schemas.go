package validatingadmissionpolicystatus

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	celopenapi "k8s.io/apiserver/pkg/cel/openapi"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// schemas ask the server for its kinds and their schemas, each once. They are used for one policy by one goroutine.
type schemas struct {
	discovery discovery.DiscoveryInterface
	lists     []*metav1.APIResourceList
	paths     map[string]openapi.GroupVersion
	documents map[schema.GroupVersion]*document
}

// document is what the server says of the schemas of a group version.
type document struct {
	Components struct {
		Schemas map[string]*spec.Schema `json:"schemas"`
	} `json:"components"`
}

// reference is how one schema names another.
const reference = "#/components/schemas/"

// kinds are those that a resource may be of. As wherever clients look up resources, an empty group is any group.
func (s *schemas) kinds(of schema.GroupVersionResource) (out []schema.GroupVersionKind, err error) {
	if s.lists == nil {
		_, lists, err := s.discovery.ServerGroupsAndResources()
		if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
			return nil, err
		}
		s.lists = lists
	}
	for _, list := range s.lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil || gv.Version != of.Version || of.Group != "" && gv.Group != of.Group {
			continue
		}
		for i := range list.APIResources {
			if r := &list.APIResources[i]; r.Name == of.Resource {
				out = append(out, gv.WithKind(r.Kind))
			}
		}
	}
	return out, nil
}

// typeOf is the type of a kind, under a name; nil if any value is of it. The error is ErrSchemaNotFound if the server
// does not describe the kind.
func (s *schemas) typeOf(k schema.GroupVersionKind, name string) (*apiservercel.DeclType, error) {
	d, err := s.document(k.GroupVersion())
	if err != nil {
		return nil, err
	}
	for at, one := range d.Components.Schemas {
		var kinds []schema.GroupVersionKind
		if err := one.Extensions.GetObject("x-kubernetes-group-version-kind", &kinds); err != nil {
			return nil, err
		}
		if !slices.Contains(kinds, k) {
			continue
		}
		whole, err := resolver.PopulateRefs(d.find, reference+at)
		if err != nil {
			return nil, err
		}
		t := common.SchemaDeclType(&celopenapi.Schema{Schema: whole}, true)
		if t == nil {
			return nil, nil
		}
		return t.MaybeAssignTypeName(name), nil
	}
	return nil, fmt.Errorf("kind %v: %w", k, resolver.ErrSchemaNotFound)
}

func (d *document) find(ref string) (*spec.Schema, bool) {
	found, ok := d.Components.Schemas[strings.TrimPrefix(ref, reference)]
	return found, ok
}

func (s *schemas) document(gv schema.GroupVersion) (*document, error) {
	if known := s.documents[gv]; known != nil {
		return known, nil
	}
	if s.paths == nil {
		paths, err := s.discovery.OpenAPIV3().Paths()
		if err != nil {
			return nil, err
		}
		s.paths = paths
	}
	path := "apis/" + gv.String()
	if gv.Group == "" {
		path = "api/" + gv.Version
	}
	served, ok := s.paths[path]
	if !ok {
		return nil, fmt.Errorf("group version %v: %w", gv, resolver.ErrSchemaNotFound)
	}
	text, err := served.Schema(runtime.ContentTypeJSON)
	if err != nil {
		return nil, err
	}
	d := &document{}
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("schemas of %v: %w", gv, err)
	}
	if s.documents == nil {
		s.documents = map[schema.GroupVersion]*document{}
	}
	s.documents[gv] = d
	return d, nil
}
