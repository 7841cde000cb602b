package resourcetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
)

// difference is a place where two documents differ.
type difference struct {
	path      string
	want, got any
}

func (d difference) String() string {
	return fmt.Sprintf("%s: want %s, got %s", d.path, text(d.want), text(d.got))
}

func text(v any) string {
	if v == nil {
		return "nothing"
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func tree(t *testing.T, b []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func differences(want, got any, path string) []difference {
	switch w := want.(type) {
	case map[string]any:
		if g, ok := got.(map[string]any); ok {
			return inMaps(w, g, path)
		}
	case []any:
		if g, ok := got.([]any); ok && len(w) == len(g) {
			var out []difference
			for i := range w {
				out = append(out, differences(w[i], g[i], fmt.Sprintf("%s[%d]", path, i))...)
			}
			return out
		}
	}
	if reflect.DeepEqual(want, got) {
		return nil
	}
	return []difference{{path, want, got}}
}

func inMaps(want, got map[string]any, path string) []difference {
	keys := maps.Clone(want)
	maps.Copy(keys, got)
	var out []difference
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		below := k
		if path != "" {
			below = path + "." + k
		}
		_, inWant := want[k]
		_, inGot := got[k]
		if inWant != inGot {
			out = append(out, difference{below, want[k], got[k]})
			continue
		}
		out = append(out, differences(want[k], got[k], below)...)
	}
	return out
}
