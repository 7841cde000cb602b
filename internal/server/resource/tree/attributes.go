package tree

import (
	"cmp"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/server/resource"
)

// attributesOf reads labels and fields from the text of an object.
func attributesOf(text []byte, paths [][]string) resource.Attributes {
	var a resource.Attributes
	Members(member(member(text, "metadata"), "labels"), func(name, value []byte) bool {
		if key, ok := unquote(name); ok {
			label, _ := unquote(value)
			a.Labels = append(a.Labels, key, label)
		}
		return true
	})
	sortPairs(a.Labels)
	if len(paths) == 0 {
		return a
	}
	a.Fields = make([]string, len(paths))
	for i, path := range paths {
		at := text
		for _, name := range path {
			at = member(at, name)
		}
		a.Fields[i] = scalar(at)
	}
	return a
}

// sortPairs sorts key, value, key, value, … by key. Encoders have mostly sorted them already.
func sortPairs(pairs []string) {
	sorted := true
	for i := 2; i < len(pairs); i += 2 {
		sorted = sorted && pairs[i-2] < pairs[i]
	}
	if sorted {
		return
	}
	type pair struct{ key, value string }
	var all []pair
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, pair{pairs[i], pairs[i+1]})
	}
	slices.SortStableFunc(all, func(a, b pair) int { return cmp.Compare(a.key, b.key) })
	for i, p := range all {
		pairs[2*i], pairs[2*i+1] = p.key, p.value
	}
}

// pathsOf splits the paths of fields at the dots.
func pathsOf(fields []resource.Field) [][]string {
	var out [][]string
	for _, f := range fields {
		path := f.Path
		if path == "" {
			path = f.Label
		}
		out = append(out, strings.Split(strings.TrimPrefix(path, "."), "."))
	}
	return out
}
