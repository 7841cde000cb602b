package rbac

import (
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// recorded has, for each object of the bootstrap policy of kube-apiserver 1.37.2, the beginning of a digest of what it
// says.
//
//go:embed testdata/bootstrap-1.37.txt
var recorded string

// canonical is what an object says, whatever the order of its rules and of the words in them, and its name.
func canonical(t *testing.T, kind string, object any) (name, text string) {
	t.Helper()
	var tree map[string]any
	encoded, err := json.Marshal(object)
	if err == nil {
		err = json.Unmarshal(encoded, &tree)
	}
	if err != nil {
		t.Fatal(err)
	}
	meta := tree["metadata"].(map[string]any)
	delete(meta, "creationTimestamp")
	delete(tree, "apiVersion")
	tree["kind"] = kind
	if rules, ok := tree["rules"].([]any); ok {
		var all []string
		for _, r := range rules {
			for _, words := range r.(map[string]any) {
				slices.SortFunc(words.([]any), func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
			}
			rule, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, string(rule))
		}
		slices.Sort(all)
		tree["rules"] = all
	}
	if encoded, err = json.Marshal(tree); err != nil {
		t.Fatal(err)
	}
	namespace, _ := meta["namespace"].(string)
	return fmt.Sprint(kind, "/", namespace, "/", meta["name"]), string(encoded)
}

func TestTheBootstrapPolicyIsThatOfKubernetesObjectByObject(t *testing.T) {
	want := map[string]string{}
	for line := range strings.Lines(recorded) {
		name, digest, _ := strings.Cut(strings.TrimSpace(line), " ")
		want[name] = digest
	}
	check := func(kind string, object any) {
		name, text := canonical(t, kind, object)
		switch digest, known := want[name]; {
		case !known:
			t.Errorf("Kubernetes has no %s", name)
		case !strings.HasPrefix(fmt.Sprintf("%x", sha256.Sum256([]byte(text))), digest):
			t.Errorf("%s differs: %s", name, text)
		}
		delete(want, name)
	}
	p := DefaultPolicy()
	for _, r := range p.ClusterRoles {
		check("ClusterRole", r)
	}
	for _, b := range p.ClusterRoleBindings {
		check("ClusterRoleBinding", b)
	}
	for _, r := range p.Roles {
		check("Role", r)
	}
	for _, b := range p.RoleBindings {
		check("RoleBinding", b)
	}
	for name := range want {
		t.Errorf("there is no %s", name)
	}
}
