package openapi

import (
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/millrace/millrace/internal/server/resource"
)

// plainPath is a path that is not one of a kind: it tells what there is, or about the server.
type plainPath struct {
	Path
	answer reflect.Type // nil: text
}

// document names the path's document of version 3.
func (p *plainPath) document() string { return strings.Trim(p.Path.Path, "/") }

var (
	discoveryTypes = objectTypes[:3]
	jsonTypes      = objectTypes[:1]
)

// plainPaths are the paths of discovery, down to the groups of built-in kinds, and those that tell about the server.
func plainPaths(faces []*resource.Face) []plainPath {
	paths := []plainPath{
		discoveryPath("/api/", "core", "getCoreAPIVersions", "get available API versions", reflect.TypeFor[metav1.APIVersions]()),
		discoveryPath("/apis/", "apis", "getAPIVersions", "get available API versions", reflect.TypeFor[metav1.APIGroupList]()),
		plainly("/version/", "version", "getCodeVersion", "get the version of the server", jsonTypes, reflect.TypeFor[version.Info]()),
		plainly("/.well-known/openid-configuration/", "WellKnown", "getServiceAccountIssuerOpenIDConfiguration",
			"get the OpenID configuration of the issuer of service account tokens", jsonTypes, nil),
		plainly("/openid/v1/jwks/", "openid", "getServiceAccountIssuerOpenIDKeyset",
			"get the keys with which service account tokens are verified", []string{"application/jwk-set+json"}, nil),
	}
	seen := map[string]bool{"": true}
	for _, f := range faces {
		if f.Of.Custom || seen[f.Group] {
			continue
		}
		seen[f.Group] = true
		words := wordsFor(schema.GroupVersion{Group: f.Group})
		paths = append(paths, discoveryPath("/apis/"+f.Group+"/", strings.TrimSuffix(words.tag, "_"), "get"+words.title+"APIGroup",
			"get information of a group", reflect.TypeFor[metav1.APIGroup]()))
	}
	return paths
}

func discoveryPath(path, tag, id, text string, answer reflect.Type) plainPath {
	p := plainly(path, tag, id, text, discoveryTypes, answer)
	p.Operations[0].Consumes = discoveryTypes
	return p
}

func plainly(path, tag, id, text string, produces []string, answer reflect.Type) plainPath {
	o := &Operation{Method: "get", ID: id, Tag: tag, Description: text, Produces: produces}
	s := plain
	if answer != nil {
		s = &Schema{Ref: name(answer)}
	}
	return plainPath{Path{Path: path, Operations: []Operation{*o.answers(s, "200")}}, answer}
}
