// Package kinds finds out from discovery which kinds of objects an API server has.
//
// What is guaranteed: a kind that discovery shows is found, in the version that
// its group prefers; a group that fails does not hide the others and is told by
// name. What may not be assumed: that what is absent does not exist, unless Failed
// is empty.
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

// A Kind is a kind of object that the server has.
type Kind struct {
	Resource   schema.GroupVersionResource
	Kind       string
	Namespaced bool
	Verbs      metav1.Verbs
}

// Can says that the kind has all the verbs.
func (k *Kind) Can(verbs ...string) bool {
	for _, verb := range verbs {
		if !slices.Contains(k.Verbs, verb) {
			return false
		}
	}
	return true
}

// Catalogue is what discovery showed.
type Catalogue struct {
	// Kinds are all kinds, each in one version.
	Kinds []*Kind
	// Failed are the groups and versions that could not be asked.
	Failed map[schema.GroupVersion]error

	byGVK map[schema.GroupVersionKind]*Kind // in every version
}

// Find returns the kind of that name, in whatever version it is asked for.
func (c *Catalogue) Find(gvk schema.GroupVersionKind) (*Kind, bool) {
	k, ok := c.byGVK[gvk]
	return k, ok
}

// FailedGroup says that a version of the group could not be asked.
func (c *Catalogue) FailedGroup(group string) bool {
	for gv := range c.Failed {
		if gv.Group == group {
			return true
		}
	}
	return false
}

// Failure is what could not be found out, or nil.
func (c *Catalogue) Failure() error {
	if len(c.Failed) == 0 {
		return nil
	}
	return &discovery.ErrGroupDiscoveryFailed{Groups: c.Failed}
}

// Discover asks the server.
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

// preference is 0 for the version that a group prefers, and its place in the
// group's list for the others.
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
