package differences_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// longest is how long texts are kept.
const longest = 2000

// volatile are fields that differ between runs.
var volatile = []string{"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "time", "lastTransitionTime", "continue", "caBundle"}

var (
	uuids    = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	suffixes = regexp.MustCompile(`\bgen-[a-z0-9]{5}\b`)
	selfType = regexp.MustCompile(`selfType\d+`)
	hosts    = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	versions = regexp.MustCompile(`\\?"(resourceVersion|creationTimestamp|time)\\?":\\?"[^"\\]+\\?"`)
	ages     = regexp.MustCompile(`^\d+s$`)
)

// normal is an answer without what differs between two runs, and in an order where Kubernetes has none.
func normal(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range volatile {
			delete(v, name)
		}
		if v["kind"] == "Status" {
			orderCauses(v)
		}
		for name, inner := range v {
			v[name] = normal(inner)
			if list, ok := inner.([]any); ok && (name == "managedFields" || name == "conditions") {
				slices.SortFunc(list, func(a, b any) int { return strings.Compare(text(a), text(b)) })
			}
		}
	case []any:
		for i := range v {
			v[i] = normal(v[i])
		}
	case string:
		v = selfType.ReplaceAllString(v, "selfType")
		v = versions.ReplaceAllString(v, "$1")
		v = hosts.ReplaceAllString(v, "HOST")
		v = ages.ReplaceAllString(suffixes.ReplaceAllString(uuids.ReplaceAllString(v, "UUID"), "gen-XXXXX"), "AGE")
		if len(v) > longest {
			v = fmt.Sprintf("%s… %d bytes", strings.ToValidUTF8(v[:longest/4], ""), len(v))
		}
		return v
	}
	return v
}

// orderCauses sorts the causes of a failure, and the parts of a message that tells them all: both follow the order of a
// map.
func orderCauses(status node) {
	details, _ := status["details"].(node)
	causes, _ := details["causes"].([]any)
	if len(causes) < 2 {
		return
	}
	slices.SortFunc(causes, func(a, b any) int { return strings.Compare(text(a), text(b)) })
	message, _ := status["message"].(string)
	parts := strings.Split(strings.NewReplacer("[", ", ", "]", ", ").Replace(message), ", ")
	slices.Sort(parts)
	status["message"] = strings.Join(parts, ", ")
}

// text is a value as JSON in which a reader can read.
func text(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // what is encoded here came from JSON
	return strings.TrimSuffix(b.String(), "\n")
}
