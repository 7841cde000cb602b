package corpus_test

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var hole = regexp.MustCompile(`\{([A-Z][A-Z0-9]*)\}`)

func fill(text string, saved map[string]string) string {
	return hole.ReplaceAllStringFunc(text, func(h string) string {
		if v, ok := saved[h[1:len(h)-1]]; ok {
			return v
		}
		return h
	})
}

func dig(v any, path string) any {
	for part := range strings.SplitSeq(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i >= len(x) {
				return "MISSING"
			}
			v = x[i]
		default:
			return "MISSING"
		}
	}
	return v
}

// Values that differ between runs are replaced on both sides.
var (
	volatile = map[string]string{"uid": "UID", "resourceVersion": "RV", "creationTimestamp": "TIME", "deletionTimestamp": "TIME", "time": "TIME",
		"continue": "CONTINUE", "clusterIP": "IP", "nodePort": "PORT", "lastTransitionTime": "TIME", "firstTimestamp": "TIME",
		"lastTimestamp": "TIME", "eventTime": "TIME", "lastUpdateTime": "TIME", "lastHeartbeatTime": "TIME", "startTime": "TIME",
		"resourceVersionMatch": "RV", "expirationTimestamp": "TIME", "token": "TOKEN", "healthCheckNodePort": "PORT"}
	generated = regexp.MustCompile(`(-gen-)[a-z0-9]{5}`)
	age       = regexp.MustCompile(`^(\d+[smhd])+$|^<unknown>$|^<invalid>$`)
	address   = regexp.MustCompile(`^10\.\d+\.\d+\.\d+$`)
	uuids     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	stamps    = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	ports     = regexp.MustCompile(`:3[0-2]\d{3}/`)
	numbered  = regexp.MustCompile(`(precondition|record) \(\d+\)`)
)

func calm(v any, key string) any {
	switch x := v.(type) {
	case map[string]any:
		out := map[string]any{}
		_, column := x["priority"]
		_, format := x["format"]
		for k, inner := range x {
			if column && format && k == "description" {
				out[k] = "WORDS"
				continue
			}
			out[k] = calm(inner, k)
		}
		return out
	case []any:
		return calmList(x, key)
	}
	if p, ok := volatile[key]; ok && v != nil && !slices.Contains([]string{"", "0", "None"}, fmt.Sprint(v)) {
		return p
	}
	if s, ok := v.(string); ok {
		s = uuids.ReplaceAllString(stamps.ReplaceAllString(ports.ReplaceAllString(s, ":PORT/"), "TIME"), "UID")
		return numbered.ReplaceAllString(generated.ReplaceAllString(s, "${1}XXXXX"), "$1 (RV)")
	}
	return v
}

func calmList(x []any, key string) any {
	if key == "managedFields" {
		// Entries are ordered by time, with a resolution of one second.
		x = slices.SortedStableFunc(slices.Values(x), func(a, b any) int {
			return strings.Compare(fmt.Sprint(dig(a, "subresource"), dig(a, "manager")), fmt.Sprint(dig(b, "subresource"), dig(b, "manager")))
		})
	}
	if key == "clusterIPs" && len(x) > 0 && x[0] != "None" {
		return []any{"IP"}
	}
	out := make([]any, len(x))
	for i, inner := range x {
		s, isText := inner.(string)
		switch {
		case key == "cells" && isText && age.MatchString(s):
			out[i] = "AGE"
		case key == "cells" && isText && address.MatchString(s):
			out[i] = "IP"
		case key == "cells":
			out[i] = calm(inner, "")
		default:
			out[i] = calm(inner, key)
		}
	}
	return out
}

func differences(want, got any, at string, found *[]string) {
	w, wantMap := want.(map[string]any)
	g, gotMap := got.(map[string]any)
	if wantMap && gotMap {
		for k := range w {
			if _, ok := g[k]; !ok {
				*found = append(*found, fmt.Sprintf("%s.%s: missing, want %.160v", at, k, w[k]))
				continue
			}
			differences(w[k], g[k], at+"."+k, found)
		}
		for k := range g {
			if _, ok := w[k]; !ok {
				*found = append(*found, fmt.Sprintf("%s.%s: not wanted, got %.160v", at, k, g[k]))
			}
		}
		return
	}
	wl, wantList := want.([]any)
	gl, gotList := got.([]any)
	if wantList && gotList && len(wl) == len(gl) {
		for i := range wl {
			differences(wl[i], gl[i], fmt.Sprintf("%s[%d]", at, i), found)
		}
		return
	}
	if !reflect.DeepEqual(want, got) {
		*found = append(*found, fmt.Sprintf("%s: want %.200v, got %.200v", at, want, got))
	}
}
