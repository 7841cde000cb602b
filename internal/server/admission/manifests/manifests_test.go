package manifests

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/millrace/millrace/internal/server/admission/policies"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/builtin"
)

const (
	policyText = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p.static.k8s.io}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  validations: [{expression: "false"}]
`
	bindingText = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: b.static.k8s.io}
spec: {policyName: p.static.k8s.io, validationActions: [Deny]}
`
	hookText = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: h.static.k8s.io}
webhooks:
- {name: h.example.com, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {url: "https://h.example.com/h"}}
`
)

// directory makes a directory with files.
func directory(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		put(t, dir, name, text)
	}
	return dir
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, plugin, dir string, log *slog.Logger) (*Manifests, error) {
	t.Helper()
	kinds := builtin.Kinds()
	policies.Complete(kinds)
	served, err := resource.NewCatalogue(kinds...)
	if err != nil {
		t.Fatal(err)
	}
	return Open(Options{Plugin: plugin, Directory: dir, Served: served, ServerID: "s", Logger: log})
}

func names(m *Manifests) string {
	var out []string
	for _, o := range m.Objects() {
		out = append(out, strings.TrimSuffix(o.GetName(), ".static.k8s.io"))
	}
	return strings.Join(out, " ")
}

func TestObjectsOfAllFormsAreReadInOrder(t *testing.T) {
	inJSON := `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":"%.static.k8s.io"},
		"spec":{"policyName":"p.static.k8s.io","validationActions":["Deny"]}}`
	dir := directory(t, map[string]string{
		"1.yaml":     "# only a comment\n--- # and another\n" + bindingText + "--- # the next\n" + policyText + "...\n",
		"2.yml":      "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(strings.ReplaceAll(bindingText, "b.static", "l.static")), "\n", "\n  "),
		"3.json":     strings.ReplaceAll(inJSON, "%", "d") + "\n\t" + strings.ReplaceAll(inJSON, "%", "c"),
		"4.yaml":     `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyList, items: [{metadata: {name: a.static.k8s.io}, spec: {matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}, validations: [{expression: "true"}]}}]}`,
		"empty.yaml": "", "notes.txt": "nonsense", "old.yaml~": "nonsense",
	})
	if err := os.Mkdir(filepath.Join(dir, "more.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	m, err := open(t, "ValidatingAdmissionPolicy", dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := names(m); got != "a p b c d l" {
		t.Errorf("read %s", got)
	}
	if p := m.Objects()[1].(*admissionv1.ValidatingAdmissionPolicy); *p.Spec.FailurePolicy != admissionv1.Fail || p.Spec.MatchConstraints.NamespaceSelector == nil {
		t.Errorf("without defaults: %+v", p.Spec)
	}
}

func TestBadManifestsAreRefusedByNameOfTheirFile(t *testing.T) {
	of := func(text, old, now string) string { return strings.Replace(text, old, now, 1) }
	for name, c := range map[string]struct{ plugin, text, words string }{
		"no YAML":             {"ValidatingAdmissionPolicy", "a: b: c", "mapping values are not allowed"},
		"other kind":          {"ValidatingAdmissionPolicy", hookText, `document 1: the kind "ValidatingWebhookConfiguration" of "admissionregistration.k8s.io/v1" cannot be in this directory`},
		"other version":       {"ValidatingAdmissionWebhook", of(hookText, "/v1", "/v1beta1"), `of "admissionregistration.k8s.io/v1beta1" cannot be`},
		"other kind in list":  {"ValidatingAdmissionPolicy", `{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Pod}]}`, `items[0]: the kind "Pod"`},
		"second document":     {"ValidatingAdmissionPolicy", policyText + "--- # two\nkind: Pod", `document 2: the kind "Pod"`},
		"no name":             {"ValidatingAdmissionWebhook", of(hookText, "name: h.static.k8s.io", ""), "metadata.name: Required value"},
		"name":                {"ValidatingAdmissionWebhook", of(hookText, "h.static.k8s.io", "h.example.com"), `metadata.name: Invalid value: "h.example.com": must end with ".static.k8s.io"`},
		"same name":           {"ValidatingAdmissionWebhook", hookText + "---\n" + hookText, `ValidatingWebhookConfiguration "h.static.k8s.io": there is another one of this name in `},
		"unknown field":       {"ValidatingAdmissionWebhook", hookText + "more: 1\n", `unknown field "more"`},
		"field twice":         {"ValidatingAdmissionWebhook", hookText + "metadata: {}\n", `key "metadata" already set`},
		"field in other case": {"ValidatingAdmissionWebhook", of(hookText, "kind:", "Kind:"), `unknown field "Kind"`},
		"service":             {"ValidatingAdmissionWebhook", of(hookText, `url: "https://h.example.com/h"`, "service: {name: s, namespace: default}"), "webhooks[0].clientConfig.service: Forbidden"},
		"rules of the API":    {"ValidatingAdmissionWebhook", of(hookText, "None", "Some"), "webhooks[0].sideEffects: Unsupported value"},
		"expression":          {"ValidatingAdmissionPolicy", of(policyText, `"false"`, `"none"`), "undeclared reference to 'none'"},
		"paramKind":           {"ValidatingAdmissionPolicy", of(policyText, "spec:", "spec:\n  paramKind: {apiVersion: v1, kind: ConfigMap}"), "spec.paramKind: Forbidden"},
		"paramRef":            {"ValidatingAdmissionPolicy", policyText + "---\n" + of(bindingText, "{policyName", "{paramRef: {name: a, parameterNotFoundAction: Deny}, policyName"), "spec.paramRef: Forbidden"},
		"policy elsewhere":    {"ValidatingAdmissionPolicy", bindingText, `ValidatingAdmissionPolicyBinding "b.static.k8s.io": spec.policyName: Invalid value: "p.static.k8s.io": there is no such policy`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := directory(t, map[string]string{"m.yaml": c.text})
			_, err := open(t, c.plugin, dir, nil)
			if err == nil || !strings.Contains(err.Error(), c.words) || !strings.HasPrefix(err.Error(), filepath.Join(dir, "m.yaml")) {
				t.Errorf("got %v, want %s", err, c.words)
			}
		})
	}
}

func TestAChangeReplacesAllAndABrokenOneNothing(t *testing.T) {
	dir := directory(t, map[string]string{"a.yaml": policyText})
	var log bytes.Buffer
	m, err := open(t, "ValidatingAdmissionPolicy", dir, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	look := func(failures int, want string) {
		t.Helper()
		for range 3 {
			m.look()
		}
		if got := names(m); got != want {
			t.Errorf("in force are %q, want %q", got, want)
		}
		if n := strings.Count(log.String(), "cannot be used"); n != failures {
			t.Errorf("%d failures were reported, want %d: %s", n, failures, log.String())
		}
	}
	look(0, "p")
	put(t, dir, "b.yaml", bindingText)
	look(0, "p b")
	put(t, dir, "a.yaml", "broken")
	look(1, "p b")
	if !strings.Contains(log.String(), filepath.Join(dir, "a.yaml")) {
		t.Errorf("the file is not named: %s", log.String())
	}
	put(t, dir, "a.yaml", policyText)
	look(1, "p b")
	if err := os.Symlink(filepath.Join(dir, "nothing"), filepath.Join(dir, "c.yaml")); err != nil {
		t.Fatal(err)
	}
	look(2, "p b")
	os.Remove(filepath.Join(dir, "c.yaml"))
	os.Remove(filepath.Join(dir, "b.yaml"))
	look(2, "p")
	if got := counted(t, m, "automatic_reloads_total"); got != "failure 2, success 3" {
		t.Errorf("counted are %s", got)
	}
}

func TestChangesAreNoticedAndTold(t *testing.T) {
	dir := directory(t, map[string]string{"a.yaml": policyText})
	synctest.Test(t, func(t *testing.T) {
		m, err := open(t, "ValidatingAdmissionPolicy", dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		go m.Run(t.Context())
		changed := m.Changed()
		put(t, dir, "b.yaml", bindingText)
		<-changed
		if got := names(m); got != "p b" {
			t.Errorf("in force are %s", got)
		}
	})
}

// counted gathers a metric of reloads by status.
func counted(t *testing.T, m *Manifests, name string) string {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(m)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range families {
		if f.GetName() != "apiserver_manifest_admission_config_controller_"+name {
			continue
		}
		for _, one := range f.Metric {
			labels := map[string]string{}
			for _, l := range one.Label {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["plugin"] != m.o.Plugin || labels["apiserver_id_hash"] == "" {
				t.Errorf("%s has the labels %v", name, labels)
			}
			out = append(out, fmt.Sprint(labels["status"], " ", one.Counter.GetValue()))
		}
	}
	return strings.Join(out, ", ")
}

func TestConfigurationsAreReadStrictly(t *testing.T) {
	dir := directory(t, map[string]string{"file": ""})
	for text, want := range map[string]string{
		``: "",
		`{apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, kubeConfigFile: "", staticManifestsDir: ` + dir + `}`:    "",
		`{apiVersion: apiserver.config.k8s.io/v1alpha1, kind: WebhookAdmission, kubeConfigFile: /a}`:                                            "",
		`{apiVersion: apiserver.config.k8s.io/v1alpha1, kind: WebhookAdmission, staticManifestsDir: ` + dir + `}`:                               "needs the version",
		`{apiVersion: apiserver.config.k8s.io/v1, kind: ValidatingAdmissionPolicyConfiguration}`:                                                "a WebhookAdmissionConfiguration of apiserver.config.k8s.io/v1 is needed",
		`{apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, kubeConfigFile: a}`:                                      `kubeConfigFile: "a" must be an absolute path`,
		`{apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, manifests: a}`:                                           `unknown field "manifests"`,
		`{apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, staticManifestsDir: a}`:                                  "must be an absolute path",
		`{apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, staticManifestsDir: ` + filepath.Join(dir, "none") + `}`: "no such file",
		`{apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, staticManifestsDir: ` + filepath.Join(dir, "file") + `}`: "is not a directory",
	} {
		_, err := Configure("ValidatingAdmissionWebhook", []byte(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
	if _, err := Configure("MutatingAdmissionPolicy", []byte(`{apiVersion: apiserver.config.k8s.io/v1, kind: MutatingAdmissionPolicyConfiguration, kubeConfigFile: a}`)); err == nil {
		t.Error("a policy can have credentials")
	}
}
