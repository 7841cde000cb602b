package ownership

import (
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/millrace/millrace/internal/server/resource"
)

// ignored lists what a change through a view cannot set, and what therefore has no owner in its name. The main resource
// leaves the status alone, if it is a view of its own; the status leaves the spec alone. Kinds that differ are in a
// table.
func ignored(kind *resource.Kind, view string) [][]string {
	if special, ok := particular[kind.GroupResource().String()+"/"+view]; ok {
		return split(special)
	}
	if _, has := kind.Views["status"]; !has {
		return nil
	}
	switch {
	case view == "status" && kind.Custom:
		return [][]string{{"spec"}, {"metadata"}}
	case view == "status":
		return [][]string{{"spec"}}
	}
	return [][]string{{"status"}}
}

var particular = map[string]string{
	"pods/status":                             "spec metadata.deletionTimestamp metadata.ownerReferences",
	"deployments.apps/status":                 "spec metadata.labels",
	"volumeattachments.storage.k8s.io/status": "spec metadata",
	"validatingadmissionpolicies.admissionregistration.k8s.io/status": "spec metadata",
	"certificatesigningrequests.certificates.k8s.io/":                 "spec status",
	"certificatesigningrequests.certificates.k8s.io/status":           "spec status.conditions",
	"certificatesigningrequests.certificates.k8s.io/approval":         "spec status.certificate",
}

func split(text string) (out [][]string) {
	for path := range strings.FieldsSeq(text) {
		out = append(out, strings.Split(path, "."))
	}
	return out
}

// only lists views that set nothing but what is below some paths; an asterisk is any element.
var only = map[string]string{
	"pods/ephemeralcontainers": "spec.ephemeralContainers",
	"pods/resize": "spec.resources spec.containers.*.resources spec.containers.*.resizePolicy" +
		" spec.initContainers.*.resources spec.initContainers.*.resizePolicy",
}

// filters says the same in the library's words.
func filters(kind *resource.Kind, view string) map[fieldpath.APIVersion]fieldpath.Filter {
	filter := filterOf(kind, view)
	if filter == nil {
		return nil
	}
	out := map[fieldpath.APIVersion]fieldpath.Filter{}
	for _, f := range kind.Faces {
		out[fieldpath.APIVersion(f.GroupVersion().String())] = filter
	}
	return out
}

func filterOf(kind *resource.Kind, view string) fieldpath.Filter {
	if text, ok := only[kind.GroupResource().String()+"/"+view]; ok {
		var matchers []*fieldpath.SetMatcher
		for _, path := range split(text) {
			matchers = append(matchers, matcher(path))
		}
		return fieldpath.NewIncludeMatcherFilter(matchers...)
	}
	set := &fieldpath.Set{}
	for _, path := range ignored(kind, view) {
		parts := make([]any, len(path))
		for i, p := range path {
			parts[i] = p
		}
		set.Insert(fieldpath.MakePathOrDie(parts...))
	}
	if set.Empty() {
		return nil
	}
	return fieldpath.NewExcludeSetFilter(set)
}

func matcher(path []string) *fieldpath.SetMatcher {
	parts := make([]any, len(path))
	for i, p := range path {
		parts[i] = p
		if p == "*" {
			parts[i] = fieldpath.MatchAnyPathElement()
		}
	}
	return fieldpath.MakePrefixMatcherOrDie(parts...)
}
