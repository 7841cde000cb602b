package extensions_test

import (
	"fmt"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/proof/internal/etcdtest"
)

// pair is two API servers that share an etcd. What the etcd says to the second arrives late, so a second server that
// does not ask for what is newest decides by what was.
type pair struct {
	*testing.T
	one, other *kubernetes.Clientset
	config     *rest.Config // of the other
}

func newPair(t *testing.T) *pair {
	etcd := etcdtest.Start(t)
	first, second := etcdtest.Server(t, etcd), etcdtest.Server(t, etcdtest.Late(t, etcd, 20*time.Millisecond))
	return &pair{t, kubernetes.NewForConfigOrDie(first.Config()), kubernetes.NewForConfigOrDie(second.Config()), second.Config()}
}

func (p *pair) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// tries creates a config map on the other server, without storing it.
func (p *pair) tries(c kubernetes.Interface) error {
	_, err := c.CoreV1().ConfigMaps("default").Create(p.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Data: map[string]string{"k": "v"}},
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

const rounds = 20

var onMaps = []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{"CREATE"},
	Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}}}

func TestAWebhookIsCalledByEveryServerAtOnce(t *testing.T) {
	p := newPair(t)
	h := newHook(t)
	h.of = &api{TB: t, hook: h}
	none, address := admissionv1.SideEffectClassNone, h.URL+"/deny"
	hooks := p.one.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	for i := range rounds {
		made, err := hooks.Create(t.Context(), &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("h", i)},
			Webhooks: []admissionv1.ValidatingWebhook{{Name: "h.example.com", SideEffects: &none, AdmissionReviewVersions: []string{"v1"}, Rules: onMaps,
				ClientConfig: admissionv1.WebhookClientConfig{URL: &address, CABundle: h.pem}}}}, metav1.CreateOptions{})
		p.must(err)
		if err := p.tries(p.other); !apierrors.IsForbidden(err) {
			t.Fatalf("round %d, after the configuration: %v", i, err)
		}
		p.must(hooks.Delete(t.Context(), made.Name, metav1.DeleteOptions{}))
		if err := p.tries(p.other); err != nil {
			t.Fatalf("round %d, after it is gone: %v", i, err)
		}
	}
}

func TestAPolicyAndItsParameterHoldOnEveryServerAtOnce(t *testing.T) {
	p := newPair(t)
	admission, maps := p.one.AdmissionregistrationV1(), p.one.CoreV1().ConfigMaps("default")
	limit, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "limit"}, Data: map[string]string{"want": "v"}}, metav1.CreateOptions{})
	p.must(err)
	_, err = admission.ValidatingAdmissionPolicies().Create(t.Context(), &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		ParamKind:        &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"},
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: onMaps[0]}}},
		Validations:      []admissionv1.Validation{{Expression: "object.data.k == params.data.want"}}}}, metav1.CreateOptions{})
	p.must(err)
	deny := admissionv1.DenyAction
	_, err = admission.ValidatingAdmissionPolicyBindings().Create(t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: "p", ParamRef: &admissionv1.ParamRef{Name: "limit", Namespace: "default", ParameterNotFoundAction: &deny}, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}}, metav1.CreateOptions{})
	p.must(err)
	for i := range rounds {
		if err := p.tries(p.other); err != nil {
			t.Fatalf("round %d, with the parameter that allows: %v", i, err)
		}
		limit.Data["want"] = "w"
		limit, err = maps.Update(t.Context(), limit, metav1.UpdateOptions{})
		p.must(err)
		if err := p.tries(p.other); !apierrors.IsInvalid(err) {
			t.Fatalf("round %d, with the parameter that denies: %v", i, err)
		}
		limit.Data["want"] = "v"
		limit, err = maps.Update(t.Context(), limit, metav1.UpdateOptions{})
		p.must(err)
	}
}

func TestARoleHoldsOnEveryServerAtOnce(t *testing.T) {
	p := newPair(t)
	config := rest.CopyConfig(p.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "alice"}
	alice := kubernetes.NewForConfigOrDie(config)
	roles := p.one.RbacV1().Roles("default")
	_, err := p.one.RbacV1().RoleBindings("default").Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "alice"},
		Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "alice"}}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "maps"}}, metav1.CreateOptions{})
	p.must(err)
	for i := range rounds {
		_, err := roles.Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "maps"},
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}}}}, metav1.CreateOptions{})
		p.must(err)
		if err := p.tries(alice); err != nil {
			t.Fatalf("round %d, with the role: %v", i, err)
		}
		p.must(roles.Delete(t.Context(), "maps", metav1.DeleteOptions{}))
		if err := p.tries(alice); apierrors.ReasonForError(err) != metav1.StatusReasonForbidden {
			t.Fatalf("round %d, without the role: %v", i, err)
		}
	}
}
