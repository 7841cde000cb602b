package access_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace"
)

// written writes a file with this text and returns its path.
func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAuthorizersAreAskedAsTheConfigurationSays(t *testing.T) {
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review authorizationv1.SubjectAccessReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		at := review.Spec.ResourceAttributes
		if at == nil || at.Resource != "secrets" {
			t.Errorf("asked about %+v", review.Spec)
			at = &authorizationv1.ResourceAttributes{}
		}
		review.Status = authorizationv1.SubjectAccessReviewStatus{Denied: at.Name != "open", Reason: "this one is closed"}
		_ = json.NewEncoder(w).Encode(&review)
	}))
	t.Cleanup(hook.Close)
	kubeconfig := written(t, "hook", "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: '"+hook.URL+"'}}]\ncontexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n")
	o := millrace.Options{Controllers: []string{}, NoScheduler: true, AuthorizationPolicyFile: written(t, "policies",
		`{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"alice","namespace":"default","resource":"*","apiGroup":"*"}}`+"\n")}
	o.AuthorizationConfig = written(t, "authorization", fmt.Sprintf(`apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- type: Webhook
  name: secrets
  webhook:
    timeout: 3s
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: Deny
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: %s}
    matchConditions:
    - expression: has(request.resourceAttributes) && request.resourceAttributes.resource == 'secrets'
- {type: ABAC, name: abac}
- {type: RBAC, name: rbac}
`, kubeconfig))
	c := start(t, o)
	alice := c.as("alice")
	if _, err := alice.CoreV1().ConfigMaps("default").List(c.ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("by a policy: %v", err)
	}
	if _, err := alice.CoreV1().Secrets("default").Get(c.ctx, "open", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("what the webhook has no opinion about: %v", err)
	}
	const want = `secrets "closed" is forbidden: User "alice" cannot get resource "secrets" in API group "" in the namespace "default": this one is closed`
	if _, err := alice.CoreV1().Secrets("default").Get(c.ctx, "closed", metav1.GetOptions{}); err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	if _, err := alice.CoreV1().ConfigMaps("kube-system").List(c.ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("what nobody allows: %v", err)
	}
	metrics, err := c.admin.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(c.ctx)
	c.must(err)
	for _, line := range []string{`apiserver_authorization_decisions_total{decision="denied",name="secrets",type="Webhook"} 1`, `apiserver_authorization_decisions_total{decision="allowed",name="abac",type="ABAC"}`,
		`apiserver_authorization_webhook_evaluations_total{name="secrets",result="success"} 2`, "apiserver_authorization_config_controller_last_config_info{"} {
		if !strings.Contains(string(metrics), "\n"+line) {
			t.Errorf("the metrics do not say %s", line)
		}
	}
}

func TestAListIsAllowedForWhatItsSelectorsSay(t *testing.T) {
	c := startAPIServer(t)
	for selector, want := range map[string]int{"spec.nodeName=a": 1, "": 0} {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "system:node:a", Groups: []string{"system:nodes"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Version: "v1", Resource: "pods"}}}
		if selector != "" {
			review.Spec.ResourceAttributes.FieldSelector = &authorizationv1.FieldSelectorAttributes{RawSelector: selector}
		}
		r, err := c.admin.AuthorizationV1().SubjectAccessReviews().Create(c.ctx, review, metav1.CreateOptions{})
		c.must(err)
		if r.Status.Allowed != (want == 1) {
			t.Errorf("pods of %q: %+v", selector, r.Status)
		}
	}
}
