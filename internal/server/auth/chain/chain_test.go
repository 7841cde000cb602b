package chain

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/millrace/millrace/internal/server/auth"
)

// hook answers SubjectAccessReviews: "yes", "never", "no", or not at all.
type hook struct {
	answer atomic.Pointer[string]
	asked  atomic.Int32
	file   string // the kubeconfig that names it
}

func newHook(t *testing.T, answer string) *hook {
	t.Helper()
	h := &hook{}
	h.answer.Store(&answer)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.asked.Add(1)
		status := map[string]any{"yes": map[string]any{"allowed": true}, "never": map[string]any{"denied": true, "reason": "never"}, "no": map[string]any{}}[*h.answer.Load()]
		if status == nil {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "status": status})
	}))
	t.Cleanup(s.Close)
	h.file = filepath.Join(t.TempDir(), "config")
	write(t, h.file, "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: '"+s.URL+"'}}]\ncontexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n")
	return h
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n"

// webhook is a webhook of a configuration, with what is said more of it.
func webhookOf(name, file, more string) string {
	return fmt.Sprintf("- type: Webhook\n  name: %s\n  webhook: {timeout: 3s, subjectAccessReviewVersion: v1, matchConditionSubjectAccessReviewVersion: v1, connectionInfo: {type: KubeConfigFile, kubeConfigFile: %s}, %s}\n",
		name, file, more)
}

// following is a chain of a file whose own authorizers always answer alike.
func following(t *testing.T, text string) (*Chain, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "authorization.yaml")
	write(t, path, text)
	c, err := New(Options{File: path, Own: func(kind string) (auth.Authorizer, error) {
		if kind == AlwaysAllow {
			return auth.Always(auth.Allow), nil
		}
		return auth.Always(auth.NoOpinion), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return c, path
}

func ask(t *testing.T, c *Chain, a auth.Attributes) auth.Verdict {
	t.Helper()
	return c.Authorize(t.Context(), a)
}

var pods = auth.Attributes{User: auth.User{Name: "alice", Groups: []string{"dev"}}, Verb: "list", IsResource: true, Resource: "pods", Namespace: "team"}

func TestWebhooksAreAskedInOrderIfTheirConditionsMatch(t *testing.T) {
	first, second := newHook(t, "no"), newHook(t, "yes")
	const uncached = "failurePolicy: Deny, cacheAuthorizedRequests: false, cacheUnauthorizedRequests: false"
	c, _ := following(t, head+
		webhookOf("first", first.file, uncached+`, matchConditions: [{expression: "has(request.resourceAttributes)"}, {expression: "request.resourceAttributes.namespace == 'team'"}]`)+
		webhookOf("second", second.file, uncached+`, matchConditions: [{expression: "!('system:nodes' in request.groups)"}, {expression: "!has(request.resourceAttributes) || !has(request.resourceAttributes.fieldSelector) || request.resourceAttributes.fieldSelector.requirements.exists(r, r.key == 'spec.nodeName' && r.operator == 'In' && r.values == ['a'])"}]`))
	if v := ask(t, c, pods); !v.Allowed() || first.asked.Load() != 1 || second.asked.Load() != 1 {
		t.Errorf("%+v", v)
	}
	elsewhere := pods
	elsewhere.Namespace = "other"
	if v := ask(t, c, elsewhere); !v.Allowed() || first.asked.Load() != 1 || second.asked.Load() != 2 {
		t.Errorf("a webhook is asked that is not about the namespace: %+v", v)
	}
	node := elsewhere
	node.User.Groups = []string{"system:nodes"}
	if v := ask(t, c, node); v.Allowed() || v.Err != nil || second.asked.Load() != 2 {
		t.Errorf("%+v", v)
	}
	for value, want := range map[string]bool{"a": true, "b": false} {
		one := elsewhere
		one.Fields = fields.Requirements{{Field: "spec.nodeName", Operator: selection.Equals, Value: value}}
		if v := ask(t, c, one); v.Allowed() != want {
			t.Errorf("pods of node %s: %+v", value, v)
		}
	}
	first.answer.Store(new("never"))
	if v := ask(t, c, pods); v.Decision != auth.Deny || v.Why() != "never" {
		t.Errorf("%+v", v)
	}
	// A path has no resource: the second condition of the first webhook fails, but the first is false.
	if v := ask(t, c, auth.Attributes{User: pods.User, Verb: "get", Path: "/x"}); v.Err != nil {
		t.Errorf("%+v", v)
	}
	if v := ask(t, c, auth.Attributes{User: auth.User{Name: "root", Groups: []string{auth.Masters}}, Verb: "delete", IsResource: true, Resource: "nodes", Namespace: "team"}); !v.Allowed() {
		t.Errorf("system:masters: %+v", v)
	}
}

func TestWhatCannotBeFoundOutIsDecidedByTheFailurePolicy(t *testing.T) {
	down := newHook(t, "silent")
	for _, c := range []struct {
		policy, condition string
		want              auth.Decision
		failed            bool
	}{
		{"Deny", "true", auth.Deny, true},
		{"NoOpinion", "true", auth.Allow, false},
		{"Deny", "request.nonResourceAttributes.path == '/x'", auth.Deny, true},
		{"NoOpinion", "request.nonResourceAttributes.path == '/x'", auth.Allow, false},
		{"Deny", "false", auth.Allow, false},
	} {
		chain, _ := following(t, head+webhookOf("down", down.file, fmt.Sprintf("failurePolicy: %s, matchConditions: [{expression: \"%s\"}]", c.policy, c.condition))+"- {type: AlwaysAllow, name: alwaysallow}\n")
		if v := ask(t, chain, pods); v.Decision != c.want || (v.Err != nil) != c.failed {
			t.Errorf("%s of a webhook with the condition %s: %+v", c.policy, c.condition, v)
		}
	}
}

func TestAChangedFileIsUsedWhenAllOfItIsGood(t *testing.T) {
	h := newHook(t, "yes")
	const deny = "- {type: AlwaysDeny, name: alwaysdeny}\n"
	c, path := following(t, head+deny)
	if ask(t, c, pods).Allowed() {
		t.Error("allowed")
	}
	write(t, path, head+deny+webhookOf("hook", h.file, "failurePolicy: Deny"))
	if c.look(); !ask(t, c, pods).Allowed() {
		t.Error("the changed file is not used")
	}
	for what, text := range map[string]string{
		"nothing":                      "",
		"without what was there":       head + webhookOf("hook", h.file, "failurePolicy: Deny"),
		"with what was not there":      head + deny + "- {type: AlwaysAllow, name: alwaysallow}\n",
		"with a webhook that is wrong": head + deny + webhookOf("hook", h.file+"x", "failurePolicy: Deny"),
		"no YAML":                      "\t",
	} {
		write(t, path, text)
		before := c.current.Load()
		if c.look(); c.current.Load() != before {
			t.Errorf("a file is used: %s", what)
		}
	}
	write(t, path, head+deny)
	if c.look(); ask(t, c, pods).Allowed() {
		t.Error("a webhook that was removed is asked")
	}
}

func TestConfigurationsThatCannotBeUsed(t *testing.T) {
	file := newHook(t, "yes").file
	const good = "failurePolicy: Deny"
	for text, want := range map[string]string{
		"":                                   "authorizers: Required value: at least one authorization mode must be defined",
		"kind: AuthorizationConfiguration\n": "Object 'apiVersion' is missing",
		"apiVersion: v1\nkind: Pod\n":        `no kind "Pod" is registered for version "v1"`,
		head + "- {type: RBAC, name: rbac, x: 1}\n":                                                              `strict decoding error: unknown field "authorizers[0].x"`,
		head + "- {name: rbac}\n":                                                                                "authorizers[0].type: Required value",
		head + "- {type: Rbac, name: rbac}\n":                                                                    `authorizers[0].type: Unsupported value: "Rbac": supported values: "ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook"`,
		head + "- {type: RBAC, name: rbac}\n- {type: RBAC, name: again}\n":                                       `authorizers[1].type: Duplicate value: "RBAC"`,
		head + "- {type: RBAC}\n":                                                                                "authorizers[0].name: Required value",
		head + "- {type: RBAC, name: roles}\n":                                                                   "expected name rbac for authorizer RBAC instead of roles",
		head + "- {type: RBAC, name: A_b}\n":                                                                     `authorizers[0].name: Invalid value: "A_b": authorizer name is invalid`,
		head + "- {type: RBAC, name: rbac, webhook: {}}\n":                                                       `authorizers[0].webhook: Invalid value: "non-null": may only be specified when type=Webhook`,
		head + "- {type: Webhook, name: a}\n":                                                                    "authorizers[0].webhook: Required value: required when type=Webhook",
		head + "- {type: Webhook, name: a, webhook: {}}\n":                                                       "[authorizers[0].timeout: Required value, authorizers[0].subjectAccessReviewVersion: Required value, authorizers[0].failurePolicy: Required value, authorizers[0].connectionInfo.type: Required value]",
		head + webhookOf("a", file, good) + webhookOf("a", file, good):                                           `authorizers[1].name: Duplicate value: "a"`,
		head + strings.Replace(webhookOf("a", file, good), "3s", "31s", 1):                                       `authorizers[0].timeout: Invalid value: "31s": must be > 0s and <= 30s`,
		head + webhookOf("a", file, good+", authorizedTTL: -1s"):                                                 `authorizers[0].authorizedTTL: Invalid value: "-1s": must be > 0s`,
		head + webhookOf("a", file, "failurePolicy: Allow"):                                                      `authorizers[0].failurePolicy: Unsupported value: "Allow": supported values: "NoOpinion", "Deny"`,
		head + webhookOf("a", "config", good):                                                                    `authorizers[0].connectionInfo.kubeConfigFile: Invalid value: "config": must be an absolute path`,
		head + webhookOf("a", file+"x", good):                                                                    "error loading file: stat " + file + "x: no such file or directory",
		head + webhookOf("a", filepath.Dir(file), good):                                                          "must be a regular file",
		head + webhookOf("a", file, good+", matchConditions: [{expression: ''}]"):                                "authorizers[0].matchConditions[0].expression: Required value",
		head + webhookOf("a", file, good+", matchConditions: [{expression: '1'}]"):                               `authorizers[0].matchConditions[0].expression: Invalid value: "1": must evaluate to bool but got int`,
		head + webhookOf("a", file, good+", matchConditions: [{expression: object.a}]"):                          `authorizers[0].matchConditions[0].expression: Invalid value: "object.a": compilation failed: ERROR`,
		head + webhookOf("a", file, good+", matchConditions: [{expression: request.name}]"):                      "undefined field 'name'",
		head + webhookOf("a", file, good+", matchConditions: [{expression: 'true'}, {expression: 'true'}]"):      `authorizers[0].matchConditions[1].expression: Duplicate value: "true"`,
		head + webhookOf("a", file, good+", matchConditions: ["+strings.Repeat("{expression: 'true'},", 65)+"]"): "authorizers[0].matchConditions: Too many: 65: must have at most 64 items",
	} {
		if _, err := load([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n%v\nand not\n%s", text, err, want)
		}
	}
}

func FuzzConfiguration(f *testing.F) {
	f.Add([]byte(head + "- {type: Node, name: node}\n- {type: RBAC, name: rbac}\n"))
	f.Add([]byte(head + webhookOf("a", "/dev/null", `failurePolicy: Deny, matchConditions: [{expression: "request.user == 'a'"}]`)))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := load(text)
		if err != nil {
			return
		}
		for _, a := range c.Authorizers {
			if a.Type == Hook && a.Webhook == nil {
				t.Errorf("%s is valid", text)
			}
		}
	})
}
