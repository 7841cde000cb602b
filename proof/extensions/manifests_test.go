package extensions_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/millracetest"
)

// files are those of an API server that has manifests of all four plugins.
type files struct {
	testing.TB
	dir string
}

// plugins are the kinds of their configurations by their names.
var plugins = map[string]string{
	"ValidatingAdmissionWebhook": "WebhookAdmissionConfiguration", "MutatingAdmissionWebhook": "WebhookAdmissionConfiguration",
	"ValidatingAdmissionPolicy": "ValidatingAdmissionPolicyConfiguration", "MutatingAdmissionPolicy": "MutatingAdmissionPolicyConfiguration",
}

// newFiles makes an empty directory for each plugin. Webhooks are called with a token that is the name of their plugin.
func newFiles(t testing.TB) *files {
	f := &files{t, t.TempDir()}
	config := "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"
	for plugin, kind := range plugins {
		dir := filepath.Join(f.dir, plugin)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		more := ""
		if kind == "WebhookAdmissionConfiguration" {
			f.put(plugin+"/users", "apiVersion: v1\nkind: Config\nusers:\n- {name: '*', user: {token: "+plugin+"}}\n")
			more = ", kubeConfigFile: " + dir + "/users"
		}
		config += fmt.Sprintf("- {name: %s, configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: %s, staticManifestsDir: %s%s}}\n", plugin, kind, dir, more)
	}
	f.put("config.yaml", config)
	return f
}

// put replaces a file at once.
func (f *files) put(name, text string) {
	f.Helper()
	path := filepath.Join(f.dir, name)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		f.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		f.Fatal(err)
	}
}

func (f *files) options() millrace.Options {
	return millrace.Options{Controllers: []string{}, NoScheduler: true, Admission: millrace.AdmissionOptions{ConfigFile: filepath.Join(f.dir, "config.yaml")}}
}

// policyManifest has a validating policy about config maps and webhook configurations: each needs a label. A cluster
// has config maps in other namespaces from its start.
func policyManifest(label string) string {
	return fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: labels.static.k8s.io}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: default}}
    resourceRules:
    - {apiGroups: ["", admissionregistration.k8s.io], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: [configmaps, validatingwebhookconfigurations]}
    - {apiGroups: [authorization.k8s.io], apiVersions: ["*"], operations: ["*"], resources: ["*"]}
  validations: [{expression: "has(object.metadata.labels) && '%s' in object.metadata.labels", message: needs the label %s}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: labels.static.k8s.io}
spec: {policyName: labels.static.k8s.io, validationActions: [Deny]}
`, label, label)
}

// hookManifest has a webhook that is asked about an operation on a resource.
func hookManifest(h *hook, kind, behaviour, group, resource, operation string) string {
	return fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"%sWebhookConfiguration","metadata":{"name":"h.static.k8s.io"},"webhooks":[{"name":"h.static.k8s.io",
		"sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"%s/%s","caBundle":"%s"},
		"rules":[{"apiGroups":[%q],"apiVersions":["v1"],"resources":[%q],"operations":[%q]}]}]}`, kind, h.URL, behaviour, h.ca, group, resource, operation)
}

const alteringManifest = `apiVersion: v1
kind: List
items:
- apiVersion: admissionregistration.k8s.io/v1
  kind: MutatingAdmissionPolicy
  metadata: {name: m.static.k8s.io}
  spec:
    reinvocationPolicy: Never
    matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
    mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{annotations: {'altered': 'yes'}}}"}}]
- apiVersion: admissionregistration.k8s.io/v1
  kind: MutatingAdmissionPolicyBinding
  metadata: {name: m.static.k8s.io}
  spec: {policyName: m.static.k8s.io}
`

// refused fails unless an error has these words.
func refused(t testing.TB, err error, words string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("got %v, want %s", err, words)
	}
}

func labelled(name, label string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{label: ""}}
}

func TestManifestsAreInForceAtOnceAndInvisible(t *testing.T) {
	h := newHook(t)
	h.of = &api{TB: t, hook: h}
	f := newFiles(t)
	f.put("ValidatingAdmissionPolicy/p.yaml", policyManifest("owner"))
	f.put("MutatingAdmissionPolicy/m.yml", alteringManifest)
	f.put("ValidatingAdmissionWebhook/v.json", hookManifest(h, "Validating", "deny", "admissionregistration.k8s.io", "validatingwebhookconfigurations", "DELETE"))
	f.put("MutatingAdmissionWebhook/m.json", hookManifest(h, "Mutating", "label", "", "secrets", "CREATE"))
	kube := kubernetes.NewForConfigOrDie(millracetest.Start(t, f.options()).Config())
	ctx, maps, hooks := t.Context(), kube.CoreV1().ConfigMaps("default"), kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()

	_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{})
	refused(t, err, "ValidatingAdmissionPolicy 'labels.static.k8s.io' with binding 'labels.static.k8s.io' denied request: needs the label owner")
	c, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: labelled("c", "owner")}, metav1.CreateOptions{})
	if err != nil || c.Annotations["altered"] != "yes" {
		t.Errorf("created %v with %v", err, c.Annotations)
	}
	s, err := kube.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{})
	if err != nil || s.Labels["patched"] != "yes" {
		t.Errorf("created %v with %v", err, s.Labels)
	}

	// Webhooks of the API are protected by static policies and webhooks.
	_, err = hooks.Create(ctx, &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "own"}}, metav1.CreateOptions{})
	refused(t, err, "needs the label owner")
	if _, err = hooks.Create(ctx, &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: labelled("own", "owner")}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = hooks.Patch(ctx, "own", types.MergePatchType, []byte(`{"metadata":{"labels":null}}`), metav1.PatchOptions{})
	refused(t, err, "needs the label owner")
	refused(t, hooks.Delete(ctx, "own", metav1.DeleteOptions{}), `admission webhook "h.static.k8s.io" denied the request: not here`)

	// Nobody is asked about reviews of permissions.
	_, err = kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: "get", Path: "/"}}}, metav1.CreateOptions{})
	if err != nil {
		t.Error(err)
	}

	all, err := kube.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(ctx, metav1.ListOptions{})
	if err != nil || len(all.Items) != 0 {
		t.Errorf("policies are visible: %v, %v", all, err)
	}
	if _, err := hooks.Get(ctx, "h.static.k8s.io", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a webhook is visible: %v", err)
	}
	_, err = hooks.Create(ctx, &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: labelled("x.static.k8s.io", "owner")}, metav1.CreateOptions{})
	refused(t, err, `metadata.name: Invalid value: "x.static.k8s.io": names ending with ".static.k8s.io" are reserved`)
	if !apierrors.IsInvalid(err) {
		t.Errorf("the error is %v", err)
	}
}

func TestWebhooksAreCalledWithTheCredentialsOfTheirPlugin(t *testing.T) {
	var mu sync.Mutex
	called := map[string]string{} // the credentials by path
	h := newHook(t)
	h.of = &api{TB: t, hook: h}
	h.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		called[r.URL.Path] = r.Header.Get("Authorization")
		mu.Unlock()
		h.ServeHTTP(w, r)
	})
	f := newFiles(t)
	f.put("ValidatingAdmissionWebhook/v.json", hookManifest(h, "Validating", "allow", "", "secrets", "CREATE"))
	f.put("MutatingAdmissionWebhook/m.json", hookManifest(h, "Mutating", "label", "", "secrets", "CREATE"))
	kube := kubernetes.NewForConfigOrDie(millracetest.Start(t, f.options()).Config())
	_, err := kube.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{})
	mu.Lock()
	defer mu.Unlock()
	if err != nil || called["/allow"] != "Bearer ValidatingAdmissionWebhook" || called["/label"] != "Bearer MutatingAdmissionWebhook" {
		t.Errorf("called with %v, %v", called, err)
	}
}

func TestAnAPIServerDoesNotStartWithABadManifest(t *testing.T) {
	f := newFiles(t)
	f.put("ValidatingAdmissionPolicy/p.yaml", strings.Replace(policyManifest("owner"), "name: labels.static.k8s.io", "name: labels", 1))
	c, err := millrace.Start(t.Context(), f.options())
	if err == nil {
		c.Close()
	}
	refused(t, err, filepath.Join(f.dir, "ValidatingAdmissionPolicy/p.yaml")+`: ValidatingAdmissionPolicy "labels": metadata.name: Invalid value: "labels": must end with ".static.k8s.io"`)
}

func TestManifestsAreReadAgain(t *testing.T) {
	f := newFiles(t)
	kube := kubernetes.NewForConfigOrDie(millracetest.Start(t, f.options()).Config())
	try := func(label string) error {
		_, err := kube.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: labelled("c", label)}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	until := func(what string, done func() bool) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); !done(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("waited in vain for %s", what)
			}
		}
	}
	reloads := func(status, count string) bool {
		text, err := kube.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(string(text), "\n") {
			if strings.HasPrefix(line, "apiserver_manifest_admission_config_controller_automatic_reloads_total{") &&
				strings.Contains(line, `plugin="ValidatingAdmissionPolicy",status="`+status+`"`) {
				return strings.HasSuffix(line, "} "+count)
			}
		}
		return false
	}
	if err := try("a"); err != nil {
		t.Fatal(err)
	}
	f.put("ValidatingAdmissionPolicy/p.yaml", policyManifest("b"))
	until("the first policy", func() bool { return try("a") != nil && try("b") == nil })
	f.put("ValidatingAdmissionPolicy/p.yaml", policyManifest("c"))
	until("the changed policy", func() bool { return try("b") != nil && try("c") == nil })
	f.put("ValidatingAdmissionPolicy/p.yaml", "broken")
	until("the failure", func() bool { return reloads("failure", "1") })
	refused(t, try("b"), "needs the label c")
	if err := try("c"); err != nil || !reloads("success", "2") {
		t.Errorf("after a broken change: %v", err)
	}
	if err := os.Remove(filepath.Join(f.dir, "ValidatingAdmissionPolicy/p.yaml")); err != nil {
		t.Fatal(err)
	}
	until("the end of the policy", func() bool { return try("a") == nil })
}
