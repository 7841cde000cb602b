package millracetest

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// goldenVariable makes Golden write its files if it is "update".
const goldenVariable = "MILLRACE_GOLDEN"

// Golden compares objects with a file, such as "testdata/web.yaml". What differs from run to run stands there as a
// word: see [Dump]. A test that is run with MILLRACE_GOLDEN=update writes the file.
func Golden(t testing.TB, file string, objects ...runtime.Object) {
	t.Helper()
	got := Dump(objects...)
	if os.Getenv(goldenVariable) == "update" {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; %s=update writes it", err, goldenVariable)
	}
	if got != string(want) {
		t.Errorf("the objects are not those of %s (%s=update writes it):\n%s", file, goldenVariable, compared(string(want), got))
	}
}

// Dump is objects as YAML, in the order in which they are given, without what differs from run to run: resource
// versions and the owners of fields are left out; in the place of UIDs, times, addresses and the ends of generated
// names stand UID, TIME, ADDRESS and GENERATED.
func Dump(objects ...runtime.Object) string {
	var parts []string
	for _, o := range objects {
		tree, err := treeOf(o)
		if err != nil {
			parts = append(parts, fmt.Sprintf("# %T: %v\n", o, err))
			continue
		}
		text, err := yaml.Marshal(scrub(tree, ""))
		if err != nil {
			text = fmt.Appendf(nil, "# %T: %v\n", o, err)
		}
		parts = append(parts, string(text))
	}
	return strings.Join(parts, "---\n")
}

// treeOf is an object as JSON has it, with its kind.
func treeOf(o runtime.Object) (map[string]any, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	if kinds, _, err := scheme.Scheme.ObjectKinds(o); err == nil && len(kinds) > 0 {
		tree["apiVersion"], tree["kind"] = kinds[0].ToAPIVersionAndKind()
	}
	if meta, ok := tree["metadata"].(map[string]any); ok {
		delete(meta, "resourceVersion")
		delete(meta, "managedFields")
		prefix, _ := meta["generateName"].(string)
		if name, _ := meta["name"].(string); prefix != "" && strings.HasPrefix(name, prefix) {
			meta["name"] = prefix + "GENERATED"
		}
	}
	return tree, nil
}

var uid = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// scrub puts words into the places of values that differ from run to run.
func scrub(v any, key string) any {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			v[k] = scrub(inner, k)
		}
	case []any:
		for i, inner := range v {
			v[i] = scrub(inner, key)
		}
	case string:
		if _, err := time.Parse(time.RFC3339Nano, v); err == nil {
			return "TIME"
		}
		if _, err := netip.ParseAddr(v); err == nil && strings.Contains(strings.ToLower(key), "ip") {
			return "ADDRESS"
		}
		return uid.ReplaceAllString(v, "UID")
	}
	return v
}

// compared shows which lines two texts do not have in common, from the first to the last that differ.
func compared(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	first := 0
	for first < len(a) && first < len(b) && a[first] == b[first] {
		first++
	}
	last := 0
	for last < len(a)-first && last < len(b)-first && a[len(a)-1-last] == b[len(b)-1-last] {
		last++
	}
	out := fmt.Sprintf("from line %d:", first+1)
	for _, line := range a[first : len(a)-last] {
		out += "\n- " + line
	}
	for _, line := range b[first : len(b)-last] {
		out += "\n+ " + line
	}
	return out
}
