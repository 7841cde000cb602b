package access_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace"
)

// attempt is a request of an attacker: "POST /path", with the object's JSON, and the code that it gets.
type attempt struct {
	request, body string
	code          int
}

// attempts makes the requests of an attacker one after the other, each in a subtest that says what is tried and what
// must happen.
func (c *cluster) attempts(t *testing.T, by kubernetes.Interface, all []attempt) {
	t.Helper()
	for _, a := range all {
		t.Run(fmt.Sprintf("%s %.120s is answered with %d", a.request, a.body, a.code), func(t *testing.T) { c.attempt(t, by, a) })
	}
}

func (c *cluster) attempt(t *testing.T, by kubernetes.Interface, a attempt) {
	t.Helper()
	method, path, _ := strings.Cut(a.request, " ")
	content := "application/json"
	if method == http.MethodPatch {
		content = "application/merge-patch+json"
	}
	r := by.CoreV1().RESTClient().Verb(method).RequestURI(path).SetHeader("Content-Type", content)
	if a.body != "" {
		r = r.Body([]byte(a.body))
	}
	var code int
	result := r.Do(c.ctx).StatusCode(&code)
	if text, _ := result.Raw(); code != a.code || strings.Contains(string(text), secretValue) {
		t.Errorf("%s with %s is answered with %d %s, want %d", a.request, a.body, code, text, a.code)
	}
}

const refused = http.StatusForbidden

// clusterWide are things that nobody may do who has rights in a namespace alone, whatever these are.
var clusterWide = []attempt{
	{"GET /api/v1/secrets", "", refused},
	{"GET /api/v1/namespaces", "", refused},
	{"GET /api/v1/nodes", "", refused},
	{"POST /api/v1/namespaces", `{"metadata":{"name":"mine"}}`, refused},
	{"DELETE /api/v1/namespaces/kube-system", "", refused},
	{"PUT /api/v1/namespaces/kube-system/finalize",
		`{"metadata":{"name":"kube-system"},"spec":{"finalizers":[]}}`, refused},
	{"PATCH /api/v1/namespaces/default",
		`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`, refused},
	{"PUT /api/v1/namespaces/default/finalize", `{"metadata":{"name":"default"},"spec":{"finalizers":[]}}`, refused},
	{"PATCH /api/v1/namespaces/default/status", `{"status":{"phase":"Terminating"}}`, refused},
	{"GET /api/v1/namespaces/kube-system/secrets/s", "", refused},
	{"GET /api/v1/namespaces/kube-system/pods", "", refused},
	{"POST /api/v1/namespaces/kube-system/pods",
		`{"metadata":{"name":"x"},"spec":{"containers":[{"name":"c","image":"i"}]}}`, refused},
	{"POST /api/v1/namespaces/kube-system/serviceaccounts/default/token", `{}`, refused},
	{"POST /api/v1/namespaces/kube-system/configmaps", `{"metadata":{"name":"x"}}`, refused},
	{"PATCH /api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication",
		`{"data":{"x":"y"}}`, refused},
	{"POST /apis/rbac.authorization.k8s.io/v1/clusterroles", `{"metadata":{"name":"x"}}`, refused},
	{"POST /apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
		`{"metadata":{"name":"x"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"}}`, refused},
	{"PATCH /apis/rbac.authorization.k8s.io/v1/clusterroles/view",
		`{"rules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}]}`, refused},
	{"POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions",
		`{"metadata":{"name":"xs.example.com"}}`, refused},
	{"POST /apis/apiregistration.k8s.io/v1/apiservices", `{"metadata":{"name":"v1.example.com"}}`, refused},
	{"PATCH /apis/apiregistration.k8s.io/v1/apiservices/v1.", `{"spec":{"insecureSkipTLSVerify":true}}`, refused},
	{"POST /apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", `{"metadata":{"name":"x"}}`, refused},
	{"POST /apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
		`{"metadata":{"name":"x"}}`, refused},
	{"POST /apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", `{"metadata":{"name":"x"}}`, refused},
	{"POST /apis/certificates.k8s.io/v1/certificatesigningrequests", `{"metadata":{"name":"x"}}`, refused},
	{"PUT /apis/certificates.k8s.io/v1/certificatesigningrequests/x/approval", `{"metadata":{"name":"x"}}`, refused},
	{"POST /apis/authentication.k8s.io/v1/tokenreviews", `{"spec":{"token":"x"}}`, refused},
	{"POST /apis/authorization.k8s.io/v1/subjectaccessreviews",
		`{"spec":{"user":"admin","resourceAttributes":{"verb":"get"}}}`, refused},
	{"PATCH /apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/exempt", `{"spec":{"matchingPrecedence":1}}`, refused},
	{"POST /apis/scheduling.k8s.io/v1/priorityclasses", `{"metadata":{"name":"x"},"value":1}`, refused},
	{"POST /apis/storage.k8s.io/v1/storageclasses", `{"metadata":{"name":"x"},"provisioner":"x"}`, refused},
	{"POST /api/v1/persistentvolumes", `{"metadata":{"name":"x"}}`, refused},
	{"POST /api/v1/nodes", `{"metadata":{"name":"x"}}`, refused},
	{"GET /api/v1/nodes/n/proxy/pods", "", refused},
	{"GET /metrics", "", refused},
	{"GET /debug/pprof/heap", "", refused},
	{"GET /debug/api_priority_and_fairness/dump_requests", "", refused},
	{"GET /logs/", "", refused},
}

// startForAttacks has the namespace default, in which attackers have a role, and a pod and a service account in it.
func startForAttacks(t *testing.T) *cluster {
	t.Helper()
	c := startWithSecretAnd(t, millrace.Options{Controllers: []string{"clusterrole-aggregation-controller"}})
	c.gathered("view", "edit", "admin")
	_, err := c.admin.CoreV1().Pods("default").Create(c.ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", Image: "i"}}, ServiceAccountName: "robot",
	}}, metav1.CreateOptions{})
	c.must(err)
	return c
}

// gathered waits until roles have the rules of those that they gather: before that they allow nothing.
func (c *cluster) gathered(roles ...string) {
	c.Helper()
	for _, name := range roles {
		o := metav1.ListOptions{FieldSelector: "metadata.name=" + name}
		w, err := c.admin.RbacV1().ClusterRoles().Watch(c.ctx, o)
		c.must(err)
		for e := range w.ResultChan() {
			if r, ok := e.Object.(*rbacv1.ClusterRole); ok && len(r.Rules) > 0 {
				break
			}
		}
		w.Stop()
	}
}

// roleBinding is a binding of a user to a role, as JSON.
func roleBinding(kind, role, to string) string {
	return `{"metadata":{"generateName":"x-"},"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"` + to + `"}],` +
		`"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"` + kind + `","name":"` + role + `"}}`
}

func TestWhoEditsANamespaceGetsNoFurther(t *testing.T) {
	c := startForAttacks(t)
	c.binding("default", "edit", user("edith"))
	edith := c.clientOf("edith")
	c.attempts(t, edith, clusterWide)
	const rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/"
	c.attempts(t, edith, []attempt{
		{"POST " + rbac + "roles", `{"metadata":{"name":"x"}}`, refused},
		{"POST " + rbac + "rolebindings", roleBinding("ClusterRole", "edit", "edith"), refused},
		{"GET " + rbac + "rolebindings", "", refused},
		{"POST /apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews",
			`{"spec":{"user":"admin"}}`, refused},
		{"POST /api/v1/namespaces/default/pods/p/binding",
			`{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n"}}`, refused},
		{"PATCH /api/v1/namespaces/default/pods/p/status", `{"status":{"podIP":"10.0.0.1"}}`, refused},
		{"PATCH /api/v1/namespaces/default/pods/p/ephemeralcontainers",
			`{"spec":{"ephemeralContainers":[{"name":"e","image":"i"}]}}`, refused},
		{"POST /api/v1/namespaces/default/resourcequotas", `{"metadata":{"name":"x"}}`, refused},
		{"DELETE /api/v1/namespaces/default/limitranges/x", "", refused},
		{"POST /api/v1/namespaces/default/endpoints", `{"metadata":{"name":"kubernetes"}}`, refused},
		{"POST /apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
			`{"metadata":{"name":"x"},"addressType":"IPv4"}`, refused},
		{"PATCH /api/v1/namespaces/default/services/kubernetes/status",
			`{"status":{"loadBalancer":{"ingress":[{"ip":"10.0.0.1"}]}}}`, refused},
		{"PATCH /apis/apps/v1/namespaces/default/deployments/x/status", `{"status":{"replicas":1}}`, refused},
		// A secret of the type of tokens is filled for its account by a controller alone, and only for one that exists.
		{"POST /api/v1/namespaces/default/secrets",
			`{"metadata":{"name":"t"},"type":"kubernetes.io/service-account-token"}`, http.StatusUnprocessableEntity},
		{"POST /api/v1/namespaces/default/pods",
			`{"metadata":{"name":"x","namespace":"kube-system"},"spec":{"containers":[{"name":"c","image":"i"}]}}`, http.StatusBadRequest},
		{"POST /api/v1/namespaces/default/pods",
			`{"metadata":{"name":"x"},"spec":{"containers":[{"name":"c","image":"i","securityContext":{"privileged":true}}]}}`, http.StatusUnprocessableEntity},
		{"POST /api/v1/namespaces/default/pods",
			`{"metadata":{"name":"x"},"spec":{"priority":2000000000,"containers":[{"name":"c","image":"i"}]}}`, refused},
		{"DELETE /api/v1/namespaces/kube-system/pods", "", refused},
	})
	c.attemptsByImpersonation("edith")
}

// attemptsByImpersonation has somebody try to be somebody else.
func (c *cluster) attemptsByImpersonation(name string) {
	c.Helper()
	config, err := c.User(name)
	c.must(err)
	for _, as := range []rest.ImpersonationConfig{
		{UserName: "admin", Groups: []string{"system:masters"}}, {UserName: "system:node:n"}, {UserName: "system:kube-scheduler"},
		{UserName: "system:serviceaccount:kube-system:default"}, {UserName: name, Groups: []string{"system:masters"}}, {UserName: name, Groups: []string{"system:nodes"}},
		{UserName: name, Extra: map[string][]string{"authentication.kubernetes.io/node-name": {"n"}}},
	} {
		config.Impersonate = as
		if _, err := c.client(config).CoreV1().Secrets("kube-system").List(c.ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			c.Errorf("%s is let be %+v: %v", name, as, err)
		}
	}
}

// In Kubernetes, too, the role edit may become any service account of its namespace. That must not lead further than
// the namespace, and not into the role of an account elsewhere.
func TestAnEditorIsAnyAccountOfTheNamespaceAndNoOther(t *testing.T) {
	c := startForAttacks(t)
	c.binding("default", "edit", user("edith"))
	config, err := c.User("edith")
	c.must(err)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:default:robot"}
	if _, err := c.client(config).CoreV1().ConfigMaps("default").List(c.ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("an account of the namespace: %v", err)
	}
	config.Impersonate.UserName = "system:serviceaccount:default:robot:x"
	if _, err := c.client(config).CoreV1().ConfigMaps("default").List(c.ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("an account with a strange name: %v", err)
	}
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:default:robot", Groups: []string{"system:masters"}}
	if _, err := c.client(config).CoreV1().Secrets("kube-system").List(c.ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("an account with a group that it does not have: %v", err)
	}
}

func TestWhoAdministersANamespaceGivesNoMoreThanThat(t *testing.T) {
	c := startForAttacks(t)
	c.binding("default", "admin", user("adam"))
	adam := c.clientOf("adam")
	c.attempts(t, adam, clusterWide)
	const rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/"
	rule := func(of string) string { return `{"metadata":{"generateName":"x-"},"rules":[` + of + `]}` }
	c.attempts(t, adam, []attempt{
		{"POST " + rbac + "rolebindings", roleBinding("ClusterRole", "cluster-admin", "adam"), refused},
		{"POST " + rbac + "rolebindings", roleBinding("ClusterRole", "system:node", "adam"), refused},
		{"POST " + rbac + "rolebindings", roleBinding("Role", "still-to-come", "adam"), http.StatusNotFound},
		{"POST " + rbac + "roles", rule(`{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}`), refused},
		{"POST " + rbac + "roles",
			rule(`{"verbs":["escalate","bind"],"apiGroups":["rbac.authorization.k8s.io"],"resources":["roles","clusterroles"]}`), refused},
		{"POST " + rbac + "roles",
			rule(`{"verbs":["create"],"apiGroups":[""],"resources":["pods/binding"]}`), refused},
		{"POST " + rbac + "roles", rule(`{"verbs":["impersonate"],"apiGroups":[""],"resources":["users"]}`), refused},
		{"POST " + rbac + "roles",
			rule(`{"verbs":["get"],"apiGroups":[""],"resources":["secrets"],"nonResourceURLs":["/metrics"]}`), http.StatusUnprocessableEntity},
		{"POST " + rbac + "roles",
			rule(`{"verbs":["get"],"apiGroups":[""],"resources":["secrets"]}`), http.StatusCreated},
		{"POST " + rbac + "rolebindings", roleBinding("ClusterRole", "view", "friend"), http.StatusCreated},
		{"POST /apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings",
			roleBinding("ClusterRole", "view", "adam"), refused},
		{"POST /api/v1/namespaces/default/resourcequotas", `{"metadata":{"name":"x"}}`, refused},
		{"PATCH /api/v1/namespaces/default/pods/p/status", `{"status":{"podIP":"10.0.0.1"}}`, refused},
		{"POST /api/v1/namespaces/default/pods/p/binding",
			`{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n"}}`, refused},
	})
	c.attemptsByImpersonation("adam")
	// What aggregation adds to the role admin later, he gets only in his namespace.
	_, err := c.admin.RbacV1().ClusterRoles().Create(c.ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "more", Labels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-admin": "true"}},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"nodes"}}},
	}, metav1.CreateOptions{})
	c.must(err)
	c.attempts(t, adam, []attempt{{"GET /api/v1/nodes", "", refused}})
}

// definition is one of a kind of its own, with a part of its specification.
func definition(plural, group, more string) string {
	kind := strings.ToUpper(plural[:1]) + strings.TrimSuffix(plural[1:], "s")
	return `{"metadata":{"name":"` + plural + "." + group + `","annotations":{"api-approved.kubernetes.io":"https://example.com"}},"spec":{"group":"` + group +
		`","scope":"Namespaced","names":{"plural":"` + plural + `","kind":"` + kind + `"},"versions":[{"name":"v1","served":true,"storage":true,` +
		`"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]` + more + `}}`
}

func TestWhoDefinesKindsGetsNoRightToTheirObjectsOrToOthers(t *testing.T) {
	c := startForAttacks(t)
	c.grantEverywhere("dora", rbacv1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"*"}})
	dora := c.clientOf("dora")
	c.attempts(t, dora, slices.DeleteFunc(slices.Clone(clusterWide), func(a attempt) bool { return strings.Contains(a.request, "customresourcedefinitions") }))
	const definitions = "POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	c.attempts(t, dora, []attempt{
		{definitions, definition("widgets", "example.com", ""), http.StatusCreated},
		{"GET /apis/example.com/v1/namespaces/default/widgets", "", refused},
		{"POST /apis/example.com/v1/namespaces/default/widgets", `{"metadata":{"name":"x"}}`, refused},
		{definitions, definition("pods", "", ""), http.StatusUnprocessableEntity},
		// A conversion webhook is called by the server: it must be https, or a service, and says nothing that opens a
		// path.
		{definitions, definition("gadgets", "example.com",
			`,"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"http://127.0.0.1/x"}}}`), http.StatusUnprocessableEntity},
		{definitions, definition("gadgets", "example.com",
			`,"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"https://user:word@example.com/x"}}}`), http.StatusUnprocessableEntity},
	})
	for _, builtIn := range [][2]string{{"networkpolicies", "networking.k8s.io"}, {"rolebindings", "rbac.authorization.k8s.io"}, {"deployments", "apps.k8s.io"}} {
		c.attempts(t, dora, []attempt{{definitions, definition(builtIn[0], builtIn[1], ""), http.StatusCreated}})
	}
	if _, err := c.admin.RbacV1().RoleBindings("").List(c.ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("role bindings afterwards: %v", err)
	}
	c.attempts(t, dora, []attempt{{"GET /api/v1/namespaces/default/secrets/s", "", refused}, {"GET /apis/networking.k8s.io/v1/networkpolicies", "", refused}})
	c.binding("default", "view", user("vera")) // permissions can still be changed
	if _, err := c.as("vera").CoreV1().Pods("default").List(c.ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("a right that was granted afterwards: %v", err)
	}
	c.attemptsByImpersonation("dora")
}

func TestNobodyLearnsNothing(t *testing.T) {
	c := startForAttacks(t)
	anonymous := c.client(rest.AnonymousClientConfig(c.Config()))
	c.attempts(t, anonymous, clusterWide)
	c.attempts(t, anonymous, []attempt{
		{"GET /api", "", refused},
		{"GET /apis", "", refused},
		{"GET /openapi/v2", "", refused},
		{"GET /api/v1/namespaces/default/configmaps", "", refused},
		{"GET /api/v1/namespaces/kube-public/configmaps", "", refused},
		{"GET /apis/nothing.example.com/v1/things", "", refused},
		{"POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
			`{"spec":{"resourceAttributes":{"verb":"get"}}}`, refused},
		{"POST /apis/authentication.k8s.io/v1/selfsubjectreviews", `{}`, refused},
		{"POST /apis/authorization.k8s.io/v1/selfsubjectrulesreviews", `{"spec":{"namespace":"default"}}`, refused},
		{"GET /healthz", "", http.StatusOK},
		{"GET /version", "", http.StatusOK},
	})
	if _, err := c.seen(anonymous, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a list of visible namespaces: %v", err)
	}
	began := time.Now()
	for _, token := range []string{"x", "a.b.c", strings.Repeat("x", 4000), c.token("robot") + "x", "e30.e30.e30"} {
		if _, err := c.with(token).CoreV1().ConfigMaps("default").List(c.ctx, metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
			t.Errorf("a token %.20q…, after %v: %v", token, time.Since(began), err)
		}
	}
	// The words of a refusal say nothing of whether the object exists.
	said := map[string]bool{}
	for _, name := range []string{"s", "t"} {
		_, err := anonymous.CoreV1().Secrets("default").Get(c.ctx, name, metav1.GetOptions{})
		said[strings.ReplaceAll(err.Error(), `"`+name+`"`, "")] = true
	}
	if len(said) != 1 {
		t.Errorf("refusals differ: %v", slices.Collect(maps.Keys(said)))
	}
}
