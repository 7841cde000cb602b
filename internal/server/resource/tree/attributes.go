package tree

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace/millrace/internal/jsontext"
	"github.com/millrace/millrace/internal/server/resource"
)

// attributesOf reads labels and fields from the text of an object.
func attributesOf(text []byte, paths [][]string) resource.Attributes {
	var a resource.Attributes
	labels, _ := jsontext.At(text, "metadata", "labels")
	jsontext.Members(labels, func(name, value []byte) bool {
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
		value, _ := jsontext.At(text, path...)
		a.Fields[i] = selectable(value)
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

// unquote reads a JSON string. What other servers have stored may have escapes and characters that are read by the
// library alone.
func unquote(quoted []byte) (string, bool) {
	if len(quoted) == 0 || quoted[0] != '"' {
		return "", false
	}
	text, ok := jsontext.Unquote(string(quoted))
	if !ok {
		ok = json.Unmarshal(quoted, &text) == nil
	}
	return text, ok
}

// selectable returns a value as field selectors see it: a string, boolean or integer. Anything else is empty.
func selectable(value []byte) string {
	if len(value) == 0 {
		return ""
	}
	switch value[0] {
	case '"':
		text, _ := unquote(value)
		return text
	case 't', 'f':
		return string(value)
	case '{', '[', 'n':
		return ""
	}
	if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
		return strconv.FormatInt(n, 10)
	}
	return ""
}
