package access_test

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// claims are the claims of devices of one namespace.
type claims struct {
	*cluster
	namespace string
}

func newClaims(t *testing.T) *claims {
	c := &claims{startAPIServer(t), "devices"}
	_, err := c.admin.CoreV1().Namespaces().Create(c.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}, metav1.CreateOptions{})
	c.must(err)
	return c
}

// label sets the label of the namespace that allows administrator access.
func (c *claims) label(value string) {
	c.Helper()
	patch := `{"metadata":{"labels":{"resource.kubernetes.io/admin-access":` + value + `}}}`
	_, err := c.admin.CoreV1().Namespaces().Patch(c.ctx, c.namespace, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	c.must(err)
}

func claimSpec(admin bool) resourcev1.ResourceClaimSpec {
	exactly := &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu"}
	if admin {
		exactly.AdminAccess = &admin
	}
	return resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "r", Exactly: exactly}}}}
}

func (c *claims) create(name string, admin bool) error {
	_, err := c.admin.ResourceV1().ResourceClaims(c.namespace).Create(c.ctx, &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: claimSpec(admin)}, metav1.CreateOptions{})
	return err
}

func (c *claims) createTemplate(name string) error {
	_, err := c.admin.ResourceV1().ResourceClaimTemplates(c.namespace).Create(c.ctx, &resourcev1.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceClaimTemplateSpec{Spec: claimSpec(true)}}, metav1.CreateOptions{})
	return err
}

// patch patches the status as somebody.
func (c *claims) patch(by kubernetes.Interface, name string, status any) error {
	c.Helper()
	body, err := json.Marshal(map[string]any{"status": status})
	c.must(err)
	_, err = by.ResourceV1().ResourceClaims(c.namespace).Patch(c.ctx, name, types.MergePatchType, body, metav1.PatchOptions{}, "status")
	return err
}

func (c *claims) read(name string) *resourcev1.ResourceClaim {
	c.Helper()
	o, err := c.admin.ResourceV1().ResourceClaims(c.namespace).Get(c.ctx, name, metav1.GetOptions{})
	c.must(err)
	return o
}

// invalid checks that a change was refused with a cause at this field, in these words, and that the claim is as before.
func (c *claims) invalid(err error, field, words string) {
	c.Helper()
	status, ok := err.(apierrors.APIStatus)
	if !ok || !apierrors.IsInvalid(err) {
		c.Errorf("got %v, want a refusal", err)
		return
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Field == field && cause.Type == metav1.CauseType("FieldValueForbidden") && strings.Contains(cause.Message, words) {
			return
		}
	}
	c.Errorf("no cause at %s with %q: %v", field, words, err)
}

// refused checks that a change of a status is refused, and that nothing of it is stored.
func (c *claims) refused(by kubernetes.Interface, name string, status any, field, words string) {
	c.Helper()
	before := c.read(name)
	c.invalid(c.patch(by, name, status), field, words)
	if now := c.read(name); !equality.Semantic.DeepEqual(now, before) {
		c.Errorf("%s has changed: %+v", name, now.Status)
	}
}

func allocation(node string, admin bool) map[string]any {
	result := map[string]any{"driver": "gpu.example.com", "pool": "p", "device": "d", "request": "r"}
	if admin {
		result["adminAccess"] = true
	}
	return map[string]any{"devices": map[string]any{"results": []any{result}}, "nodeSelector": map[string]any{"nodeSelectorTerms": []any{
		map[string]any{"matchFields": []any{map[string]any{"key": "metadata.name", "operator": "In", "values": []any{node}}}}}}}
}

func deviceStatus(data string) map[string]any {
	return map[string]any{"devices": []any{map[string]any{"driver": "gpu.example.com", "pool": "p", "device": "d", "data": map[string]any{"v": data}}}}
}

const adminWords = "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace"

func TestAdministratorAccessToDevicesNeedsALabelOfTheNamespace(t *testing.T) {
	c := newClaims(t)
	for _, label := range []string{`null`, `"false"`} {
		c.label(label)
		c.invalid(c.create("a", true), "spec.devices.requests[0].adminAccess", adminWords)
		c.invalid(c.createTemplate("a"), "spec.devices.requests[0].adminAccess", adminWords)
	}
	if _, err := c.admin.ResourceV1().ResourceClaims(c.namespace).Get(c.ctx, "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a refused claim: %v", err)
	}
	c.must(c.create("plain", false))

	c.label(`"true"`)
	c.must(c.create("a", true))
	c.must(c.create("allocated", true))
	c.must(c.createTemplate("a"))
	c.must(c.patch(c.admin, "allocated", map[string]any{"allocation": allocation("n", true)}))

	c.label(`null`)
	c.refused(c.admin, "a", map[string]any{"allocation": allocation("n", true)}, "status.allocation.devices.results[0].adminAccess", adminWords)
	c.must(c.patch(c.admin, "a", map[string]any{"allocation": allocation("n", false)}))
	// What is there already stays usable.
	c.must(c.patch(c.admin, "allocated", map[string]any{"reservedFor": []any{map[string]any{"resource": "pods", "name": "p", "uid": "u"}}}))
	_, err := c.admin.ResourceV1().ResourceClaims(c.namespace).Patch(c.ctx, "allocated", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
	c.must(err)
}

// permit gives a subject a role that may read claims and write their statuses, and what these rules say.
func (c *claims) permit(s rbacv1.Subject, more ...rbacv1.PolicyRule) {
	c.Helper()
	rules := append(more, rbacv1.PolicyRule{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceclaims", "resourceclaims/status"}, Verbs: []string{"get", "update", "patch"}})
	_, err := c.admin.RbacV1().ClusterRoles().Create(c.ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: s.Name}, Rules: rules}, metav1.CreateOptions{})
	c.must(err)
	_, err = c.admin.RbacV1().ClusterRoleBindings().Create(c.ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: s.Name}, Subjects: []rbacv1.Subject{s},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: s.Name}}, metav1.CreateOptions{})
	c.must(err)
}

func claimRule(part, name string, verbs ...string) rbacv1.PolicyRule {
	r := rbacv1.PolicyRule{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceclaims/" + part}, Verbs: verbs}
	if name != "" {
		r.ResourceNames = []string{name}
	}
	return r
}

func TestTheAllocationOfAClaimNeedsThePermissionToBind(t *testing.T) {
	c := newClaims(t)
	c.permit(user("alice"), claimRule("driver", "", "*"))
	c.permit(user("bob"), claimRule("binding", "", "patch"))
	c.must(c.create("a", false))
	alice, bob := c.as("alice"), c.as("bob")
	allocated := map[string]any{"allocation": allocation("n", false)}
	const words = `changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb="patch" permission: ` +
		`resourceclaims.resource.k8s.io is forbidden: User "alice" cannot patch resource "resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope`
	c.refused(alice, "a", allocated, "status.allocation", words)
	c.must(c.patch(alice, "a", map[string]any{}))
	c.must(c.patch(bob, "a", allocated))
	reserved := map[string]any{"reservedFor": []any{map[string]any{"resource": "pods", "name": "p", "uid": "u"}}}
	c.refused(alice, "a", reserved, "status.allocation", words)
	c.must(c.patch(bob, "a", reserved))
	c.refused(alice, "a", nil, "status.allocation", words)

	o := c.read("a")
	o.Status.ReservedFor = nil
	_, err := bob.ResourceV1().ResourceClaims(c.namespace).UpdateStatus(c.ctx, o, metav1.UpdateOptions{})
	c.invalid(err, "status.allocation", `verb="update" permission`)

	apply := `{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"a"},"status":{"reservedFor":[{"resource":"pods","name":"q","uid":"v"}]}}`
	_, err = alice.ResourceV1().ResourceClaims(c.namespace).Patch(c.ctx, "a", types.ApplyPatchType, []byte(apply), metav1.PatchOptions{FieldManager: "m"}, "status")
	c.invalid(err, "status.allocation", words)
	_, err = bob.ResourceV1().ResourceClaims(c.namespace).Patch(c.ctx, "a", types.ApplyPatchType, []byte(apply), metav1.PatchOptions{FieldManager: "m"}, "status")
	c.must(err)
	if got := c.read("a").Status.ReservedFor; len(got) != 2 {
		t.Errorf("reserved for %v", got)
	}
	c.must(c.patch(bob, "a", nil))
}

// onNode returns a client of a service account as a pod of a node has it.
func (c *claims) onNode(account, node string) kubernetes.Interface {
	config := c.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:devices:" + account}
	if node != "" {
		config.Impersonate.Extra = map[string][]string{"authentication.kubernetes.io/node-name": {node}}
	}
	return c.client(config)
}

func TestTheStatusOfADeviceNeedsAPermissionForItsDriver(t *testing.T) {
	c := newClaims(t)
	account := func(name string) rbacv1.Subject {
		return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: c.namespace}
	}
	c.permit(user("alice"), claimRule("binding", "", "*"), claimRule("driver", "other.example.com", "*"))
	c.permit(user("bob"), claimRule("driver", "gpu.example.com", "arbitrary-node:patch"))
	c.permit(account("local"), claimRule("driver", "gpu.example.com", "associated-node:patch"))
	c.permit(account("none"))
	c.must(c.create("a", false))
	c.must(c.patch(c.admin, "a", map[string]any{"allocation": allocation("n1", false)}))
	words := func(verbs, who, verb string) string {
		return `changing status.devices requires resource="resourceclaims/driver", verb="[` + verbs + `]" permission: resourceclaims.resource.k8s.io "gpu.example.com" is forbidden: User "` +
			who + `" cannot ` + verb + ` resource "resourceclaims/driver" in API group "resource.k8s.io" in the namespace "devices"`
	}
	const far, both, local = "arbitrary-node:patch", "associated-node:patch arbitrary-node:patch", "system:serviceaccount:devices:local"
	c.refused(c.as("alice"), "a", deviceStatus("1"), "status.devices", words(far, "alice", far))
	c.refused(c.onNode("local", ""), "a", deviceStatus("1"), "status.devices", words(far, local, far))
	c.refused(c.onNode("local", "n2"), "a", deviceStatus("1"), "status.devices", words(far, local, far))
	c.refused(c.onNode("none", "n1"), "a", deviceStatus("1"), "status.devices", words(both, "system:serviceaccount:devices:none", "associated-node:patch"))
	c.must(c.patch(c.as("bob"), "a", deviceStatus("1")))
	c.must(c.patch(c.onNode("local", "n1"), "a", deviceStatus("2")))
	if got := c.read("a").Status.Devices; len(got) != 1 || !equality.Semantic.DeepEqual(got[0].Data, &runtime.RawExtension{Raw: []byte(`{"v":"2"}`)}) {
		t.Errorf("the device has %+v", got)
	}
	c.refused(c.as("alice"), "a", map[string]any{"devices": nil}, "status.devices", words(far, "alice", far))
	// Whoever gives devices back also removes what was said about them.
	c.must(c.patch(c.as("alice"), "a", nil))
}
