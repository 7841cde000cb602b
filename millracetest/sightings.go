package millracetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// firstSightings and lastSightings are how many lines are told of the beginning and of the end.
	firstSightings, lastSightings = 5, 30
	// mostValues is how many changed values one line tells.
	mostValues = 12
	// longestValue bounds how much is told of a value.
	longestValue = 120
)

// sightings are what was seen of an object, in order.
type sightings struct {
	lines  []string
	fields []metav1.ManagedFieldsEntry // of the last state
	values map[string]string           // of the last state, by path
}

// missing notes that there is no such object.
func (s *sightings) missing(after time.Duration) {
	s.lines = append(s.lines, fmt.Sprintf("after %v it is not there", round(after)))
	s.fields, s.values = nil, nil
}

func round(d time.Duration) time.Duration { return d.Round(time.Microsecond) }

// add notes a state of the object.
func (s *sightings) add(after time.Duration, what string, o metav1.Object) {
	line := fmt.Sprintf("after %v, at resource version %s, it %s", round(after), o.GetResourceVersion(), what)
	if by := writers(s.fields, o.GetManagedFields()); len(by) > 0 {
		line += " by " + strings.Join(by, " and ")
	}
	now := valuesOf(o)
	if changed := differences(s.values, now); s.values != nil && len(changed) > 0 {
		line += ": " + strings.Join(changed, ", ")
	}
	s.fields, s.values = o.GetManagedFields(), now
	s.lines = append(s.lines, line)
}

// String lists what was seen, one state a line.
func (s *sightings) String() string {
	if len(s.lines) == 0 {
		return "nothing was seen of it"
	}
	lines := s.lines
	if left := len(lines) - firstSightings - lastSightings; left > 0 {
		lines = slices.Concat(lines[:firstSightings], []string{fmt.Sprintf("(%d more)", left)}, lines[len(lines)-lastSightings:])
	}
	return strings.Join(lines, "\n")
}

// writers are those whose entries among the owners of fields are new or have a later time. Times are whole seconds: if
// there is none, they are those whose fields have changed.
func writers(before, now []metav1.ManagedFieldsEntry) []string {
	later := func(e, old metav1.ManagedFieldsEntry) bool {
		return e.Time != nil && (old.Time == nil || e.Time.After(old.Time.Time))
	}
	other := func(e, old metav1.ManagedFieldsEntry) bool {
		return !equality.Semantic.DeepEqual(e.FieldsV1, old.FieldsV1)
	}
	if out := entries(before, now, later); len(out) > 0 {
		return out
	}
	return entries(before, now, other)
}

// entries names the entries that are new, or that have changed in some way.
func entries(before, now []metav1.ManagedFieldsEntry, changed func(e, old metav1.ManagedFieldsEntry) bool) (out []string) {
	for _, e := range now {
		at := slices.IndexFunc(before, func(old metav1.ManagedFieldsEntry) bool {
			return old.Manager == e.Manager && old.Operation == e.Operation && old.Subresource == e.Subresource && old.APIVersion == e.APIVersion
		})
		if at >= 0 && !changed(e, before[at]) {
			continue
		}
		how := string(e.Operation)
		if e.Subresource != "" {
			how += " of " + e.Subresource
		}
		out = append(out, fmt.Sprintf("%s (%s)", e.Manager, how))
	}
	return out
}

// valuesOf are the values of an object as JSON, by their paths. Those that change with every write are left out.
func valuesOf(o metav1.Object) map[string]string {
	out := map[string]string{}
	var tree any
	if text, err := json.Marshal(o); err != nil || json.Unmarshal(text, &tree) != nil {
		return out
	}
	flatten(tree, "", out)
	delete(out, "metadata.resourceVersion")
	maps.DeleteFunc(out, func(path, _ string) bool { return strings.HasPrefix(path, "metadata.managedFields[") })
	return out
}

func flatten(v any, at string, out map[string]string) {
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			flatten(inner, strings.TrimPrefix(at+"."+key, "."), out)
		}
	case []any:
		for i, inner := range v {
			flatten(inner, fmt.Sprintf("%s[%d]", at, i), out)
		}
	default:
		text, _ := json.Marshal(v) // it was made of JSON
		if len(text) > longestValue {
			text = append(text[:longestValue:longestValue], "…"...)
		}
		out[at] = string(text)
	}
}

// differences are the values that are not as before.
func differences(before, now map[string]string) (out []string) {
	paths := map[string]bool{}
	for path := range before {
		paths[path] = before[path] != now[path]
	}
	for path := range now {
		paths[path] = before[path] != now[path]
	}
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		was, had := before[path]
		is, has := now[path]
		switch {
		case !paths[path]:
		case len(out) == mostValues:
			return append(out, "…")
		case !had:
			out = append(out, fmt.Sprintf("%s is now %s", path, is))
		case !has:
			out = append(out, fmt.Sprintf("%s was %s and is gone", path, was))
		default:
			out = append(out, fmt.Sprintf("%s was %s and is %s", path, was, is))
		}
	}
	return out
}
