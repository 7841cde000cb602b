// Package kinds reads from discovery which kinds an API server has.
//
// Guarantees: a kind that discovery shows is found, in the preferred version of its group. A group whose discovery
// fails does not hide the others, and is listed in Failed. Unless Failed is empty, a kind that is not found may exist.
package kinds

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// Kind is a kind of the server.
type Kind struct {
	Resource   schema.GroupVersionResource
	Kind       string
	Namespaced bool
	Verbs      metav1.Verbs
}

// Can reports whether the kind has all the verbs.
func (k *Kind) Can(verbs ...string) bool {
	for _, verb := range verbs {
		if !slices.Contains(k.Verbs, verb) {
			return false
		}
	}
	return true
}

// Catalogue is the result of discovery.
type Catalogue struct {
	// Kinds are all kinds, each in one version.
	Kinds []*Kind
	// Failed has the errors of groups and versions whose discovery failed.
	Failed map[schema.GroupVersion]error

	byGVK map[schema.GroupVersionKind]*Kind // in every version
}

// Find returns the kind of that name, in whatever version it is asked for.
func (c *Catalogue) Find(gvk schema.GroupVersionKind) (*Kind, bool) {
	k, ok := c.byGVK[gvk]
	return k, ok
}

// FailedGroup reports whether discovery of a version of the group failed.
func (c *Catalogue) FailedGroup(group string) bool {
	for gv := range c.Failed {
		if gv.Group == group {
			return true
		}
	}
	return false
}

// Failure joins all errors.
func (c *Catalogue) Failure() error {
	if len(c.Failed) == 0 {
		return nil
	}
	return &discovery.ErrGroupDiscoveryFailed{Groups: c.Failed}
}

// Discover reads discovery.
func Discover(d discovery.DiscoveryInterface) (*Catalogue, error) {
	groups, lists, err := d.ServerGroupsAndResources()
	c := &Catalogue{byGVK: map[schema.GroupVersionKind]*Kind{}}
	if err != nil {
		var partial *discovery.ErrGroupDiscoveryFailed
		if !errors.As(err, &partial) {
			return nil, fmt.Errorf("discover kinds: %w", err)
		}
		c.Failed = maps.Clone(partial.Groups)
	}
	rank := preference(groups)
	chosen := map[schema.GroupResource]int{} // index in Kinds
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			if c.Failed == nil {
				c.Failed = map[schema.GroupVersion]error{}
			}
			c.Failed[schema.GroupVersion{Group: list.GroupVersion}] = err
			continue
		}
		for _, r := range list.APIResources {
			if strings.Contains(r.Name, "/") {
				continue
			}
			k := &Kind{Resource: gv.WithResource(r.Name), Kind: r.Kind, Namespaced: r.Namespaced, Verbs: r.Verbs}
			c.byGVK[gv.WithKind(r.Kind)] = k
			at, seen := chosen[k.Resource.GroupResource()]
			switch {
			case !seen:
				chosen[k.Resource.GroupResource()] = len(c.Kinds)
				c.Kinds = append(c.Kinds, k)
			case rank[gv] < rank[c.Kinds[at].Resource.GroupVersion()]:
				c.Kinds[at] = k
			}
		}
	}
	for gvk, k := range c.byGVK {
		if at, ok := chosen[k.Resource.GroupResource()]; ok {
			c.byGVK[gvk] = c.Kinds[at]
		}
	}
	return c, nil
}

// preference returns 0 for the preferred version of a group, and for others their position in the group's list.
func preference(groups []*metav1.APIGroup) map[schema.GroupVersion]int {
	rank := map[schema.GroupVersion]int{}
	for _, group := range groups {
		for i, v := range group.Versions {
			place := i + 1
			if v.Version == group.PreferredVersion.Version {
				place = 0
			}
			rank[schema.GroupVersion{Group: group.Name, Version: v.Version}] = place
		}
	}
	return rank
}
