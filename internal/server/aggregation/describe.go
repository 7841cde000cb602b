package aggregation

import (
	"strings"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func same(a, b *discoveryv2.APIVersionDiscovery) bool { return equality.Semantic.DeepEqual(a, b) }

// described turns a list of resources into the newer form of the same.
func described(version string, list *metav1.APIResourceList) *discoveryv2.APIVersionDiscovery {
	d := &discoveryv2.APIVersionDiscovery{Version: version, Freshness: discoveryv2.DiscoveryFreshnessCurrent}
	gv, err := schema.ParseGroupVersion(list.GroupVersion)
	if err != nil {
		return d
	}
	at := map[string]int{}
	resource := func(name string) *discoveryv2.APIResourceDiscovery {
		i, known := at[name]
		if !known {
			i = len(d.Resources)
			at[name] = i
			d.Resources = append(d.Resources, discoveryv2.APIResourceDiscovery{Resource: name})
		}
		return &d.Resources[i]
	}
	for _, r := range list.APIResources {
		kind := &metav1.GroupVersionKind{Group: gv.Group, Version: gv.Version, Kind: r.Kind}
		if r.Version != "" {
			kind.Group, kind.Version = r.Group, r.Version
		}
		scope := discoveryv2.ScopeCluster
		if r.Namespaced {
			scope = discoveryv2.ScopeNamespace
		}
		parent, sub, nested := strings.Cut(r.Name, "/")
		p := resource(parent)
		if nested {
			if p.Scope == "" {
				p.Scope, p.ResponseKind = scope, &metav1.GroupVersionKind{}
			}
			p.Subresources = append(p.Subresources, discoveryv2.APISubresourceDiscovery{Subresource: sub, ResponseKind: kind, Verbs: r.Verbs})
			continue
		}
		p.ResponseKind, p.Scope, p.SingularResource = kind, scope, r.SingularName
		p.Verbs, p.ShortNames, p.Categories = r.Verbs, r.ShortNames, r.Categories
	}
	return d
}
