package validatingadmissionpolicystatus

import (
	"cmp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// mostKinds bounds for how many kinds of one rule expressions are compiled.
const mostKinds = 10

// kindsOf are the kinds that a policy's rules name, each once and in order. Rules with wildcards name none.
func kindsOf(m *admissionv1.MatchResources, s *schemas) ([]schema.GroupVersionKind, error) {
	if m == nil {
		return nil, nil
	}
	found := map[schema.GroupVersionKind]bool{}
	for i := range m.ResourceRules {
		of, err := kindsOfRule(&m.ResourceRules[i].Rule, s)
		if err != nil {
			return nil, err
		}
		for _, k := range of {
			found[k] = true
		}
		if len(of) == mostKinds {
			break // Kubernetes looks at no rule after one that is full
		}
	}
	return sorted(found), nil
}

func kindsOfRule(r *admissionv1.Rule, s *schemas) (out []schema.GroupVersionKind, err error) {
	groups, versions, resources := slices.Clone(r.APIGroups), slices.Clone(r.APIVersions), slices.Clone(r.Resources)
	wild := func(text string) bool { return strings.Contains(text, "*") }
	resources = slices.DeleteFunc(resources, func(text string) bool { return strings.ContainsAny(text, "*/") })
	if slices.ContainsFunc(groups, wild) || slices.ContainsFunc(versions, wild) || len(resources) == 0 {
		return nil, nil
	}
	for _, names := range [][]string{groups, versions, resources} {
		slices.Sort(names)
	}
	for _, group := range groups {
		for _, version := range versions {
			for _, resource := range resources {
				of, err := s.kinds(schema.GroupVersionResource{Group: group, Version: version, Resource: resource})
				if err != nil {
					return nil, err
				}
				if out = append(out, of...); len(out) >= mostKinds {
					return out[:mostKinds], nil
				}
			}
		}
	}
	return out, nil
}

func sorted(of map[schema.GroupVersionKind]bool) (out []schema.GroupVersionKind) {
	for k := range of {
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b schema.GroupVersionKind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Kind, b.Kind))
	})
	return out
}
