package access_test

import (
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace"
)

// restrictedPod is a pod that Pod Security lets into a restricted namespace, with something more in its metadata, its
// specification and its container's security context.
func restrictedPod(meta, spec, container string) string {
	return `{"metadata":{"generateName":"x-"` + meta + `},"spec":{"containers":[{"name":"c","image":"i","securityContext":{` +
		`"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"},"allowPrivilegeEscalation":false` + container + `}}]` + spec + `}}`
}

func TestWhoMayCreatePodsInARestrictedNamespaceGetsNoMoreOfTheHost(t *testing.T) {
	// Pods need a service account only where somebody makes the one that each namespace has.
	c := startWithSecretAnd(t, millrace.Options{Controllers: []string{"serviceaccount-controller"}})
	w, err := c.admin.CoreV1().ServiceAccounts("default").Watch(c.ctx, metav1.ListOptions{FieldSelector: "metadata.name=default"})
	c.must(err)
	<-w.ResultChan()
	w.Stop()
	label := []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)
	_, err = c.admin.CoreV1().Namespaces().Patch(c.ctx, "default", types.MergePatchType, label, metav1.PatchOptions{})
	c.must(err)
	_, err = c.admin.RbacV1().Roles("default").Create(c.ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "pods"},
		Rules: []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{""}, Resources: []string{"pods", "pods/ephemeralcontainers"}}},
	}, metav1.CreateOptions{})
	c.must(err)
	_, err = c.admin.RbacV1().RoleBindings("default").Create(c.ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "pods"},
		Subjects: []rbacv1.Subject{user("paul")}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "pods"},
	}, metav1.CreateOptions{})
	c.must(err)
	const pods, drop = "POST /api/v1/namespaces/default/pods", `,"capabilities":{"drop":["ALL"]}`
	named := strings.Replace(restrictedPod("", "", drop), "generateName\":\"x-", "name\":\"p", 1)
	const ephemeral = `{"spec":{"ephemeralContainers":[{"name":"e","image":"i"}]}}`
	paul := c.clientOf("paul")
	c.attempts(t, paul, []attempt{
		{pods, named, http.StatusCreated},
		{pods, restrictedPod("", "", ""), refused}, // it keeps its capabilities
		{pods, restrictedPod("", "", `,"capabilities":{"drop":["ALL"],"add":["SYS_ADMIN"]}`), refused},
		{pods, restrictedPod("", "", drop+`,"runAsUser":0`), refused},
		{pods, restrictedPod("", "", drop+`,"procMount":"Unmasked"`), http.StatusUnprocessableEntity},
		{pods, restrictedPod("", "", drop+`,"seLinuxOptions":{"type":"spc_t"}`), refused},
		{pods, restrictedPod("", `,"hostNetwork":true`, drop), refused},
		{pods, restrictedPod("", `,"hostPID":true`, drop), refused},
		{pods, restrictedPod("", `,"hostIPC":true`, drop), refused},
		{pods, restrictedPod("", `,"volumes":[{"name":"v","hostPath":{"path":"/"}}]`, drop), refused},
		{pods, restrictedPod("", `,"volumes":[{"name":"v","nfs":{"server":"s","path":"/"}}]`, drop), refused},
		{pods, restrictedPod("", `,"securityContext":{"sysctls":[{"name":"kernel.msgmax","value":"1"}]}`, drop), refused},
		{pods, restrictedPod("", `,"initContainers":[{"name":"d","image":"i"}]`, drop), refused},
		{pods, restrictedPod("", `,"serviceAccountName":"of-others"`, drop), refused},
		{pods, restrictedPod("", `,"priority":2000001000`, drop), refused},
		// With users of its own a pod may be root in its container; the node refuses it if it has no such users to give.
		{pods, restrictedPod("", `,"hostUsers":false`, drop+`,"runAsUser":0`), http.StatusCreated},
		{pods, restrictedPod("", `,"hostUsers":false`, drop+`,"privileged":true`), http.StatusUnprocessableEntity},
		{pods, restrictedPod("", `,"hostUsers":false,"hostPID":true`, drop), http.StatusUnprocessableEntity},
		{pods, restrictedPod("", `,"hostUsers":false,"volumes":[{"name":"v","hostPath":{"path":"/"}}]`, drop), refused},
		{pods, restrictedPod(`,"annotations":{"kubernetes.io/config.source":"file"}`, `,"hostNetwork":true`, drop), refused},
		{pods, restrictedPod(`,"annotations":{"kubernetes.io/config.mirror":"x"}`, `,"nodeName":"n","hostNetwork":true`, drop), refused},
		{"PATCH /api/v1/namespaces/default/pods/p/ephemeralcontainers", ephemeral, refused},
		{"PATCH /api/v1/namespaces/default/pods/p", `{"spec":{"hostNetwork":true}}`, http.StatusUnprocessableEntity},
		{"POST /api/v1/namespaces/default/pods/p/binding", `{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n"}}`, refused},
		{"POST /api/v1/namespaces/default/bindings", `{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n"}}`, refused},
		{"PATCH /api/v1/namespaces/default/pods/p/status", `{"status":{"phase":"Succeeded"}}`, refused},
		{"PATCH /api/v1/namespaces/default", `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`, refused},
		{"GET /api/v1/namespaces/default/secrets/s", "", refused},
	})
}

func TestANodeChangesNothingButItselfAndItsPods(t *testing.T) {
	c := startWithSecret(t, millrace.Options{})
	for _, name := range []string{"a", "b"} {
		_, err := c.admin.CoreV1().Nodes().Create(c.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		c.must(err)
		_, err = c.admin.CoreV1().Pods("default").Create(c.ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "on-" + name},
			Spec: corev1.PodSpec{NodeName: name, Containers: []corev1.Container{{Name: "c", Image: "i"}}}}, metav1.CreateOptions{})
		c.must(err)
	}
	mirror := func(node, spec string) string {
		return `{"metadata":{"generateName":"x-","annotations":{"kubernetes.io/config.mirror":"x"},"ownerReferences":[{"apiVersion":"v1",` +
			`"kind":"Node","name":"` + node + `","uid":"x","controller":true}]},"spec":{"nodeName":"` + node + `","containers":[{"name":"c","image":"i"}]` +
			spec + `}}`
	}
	const (
		pods  = "POST /api/v1/namespaces/default/pods"
		lease = `{"metadata":{"name":"b"},"spec":{"holderIdentity":"a"}}`
		slice = `{"metadata":{"name":"x"},"spec":{"driver":"d.example.com","nodeName":"b","pool":{"name":"p","resourceSliceCount":1}}}`
	)
	c.attempts(t, c.clientOf("system:node:a", "system:nodes"), []attempt{
		{"PATCH /api/v1/nodes/a/status", `{"status":{"phase":"Running"}}`, http.StatusOK},
		{"PATCH /api/v1/nodes/b/status", `{"status":{"phase":"Running"}}`, refused},
		{"PATCH /api/v1/nodes/a", `{"spec":{"taints":[{"key":"k","effect":"NoSchedule"}]}}`, refused},
		{"PATCH /api/v1/nodes/a", `{"metadata":{"labels":{"node-restriction.kubernetes.io/x":"y"}}}`, refused},
		{"PATCH /api/v1/nodes/a", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"b","uid":"x"}]}}`, refused},
		{"DELETE /api/v1/nodes/a", "", refused},
		{"DELETE /api/v1/nodes/b", "", refused},
		{"POST /api/v1/nodes", `{"metadata":{"name":"c"}}`, refused},
		{"PATCH /api/v1/namespaces/default/pods/on-b/status", `{"status":{"phase":"Failed"}}`, refused},
		{"PATCH /api/v1/namespaces/default/pods/on-a", `{"metadata":{"labels":{"app":"other"}}}`, refused},
		{"POST /api/v1/namespaces/default/pods/on-b/eviction", `{"metadata":{"name":"on-b"}}`, refused},
		{pods, `{"metadata":{"name":"x"},"spec":{"nodeName":"a","containers":[{"name":"c","image":"i"}]}}`, refused},
		{pods, mirror("b", ""), refused},
		{pods, mirror("a", `,"serviceAccountName":"robot"`), refused},
		{pods, mirror("a", `,"volumes":[{"name":"v","secret":{"secretName":"s"}}]`), refused},
		{pods, mirror("a", `,"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"s"}}]`), refused},
		{"POST /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", lease, refused},
		{"POST /apis/coordination.k8s.io/v1/namespaces/kube-system/leases", strings.Replace(lease, `"b"`, `"a"`, 1), refused},
		{"POST /apis/storage.k8s.io/v1/csinodes", `{"metadata":{"name":"b"},"spec":{"drivers":[]}}`, refused},
		{"PUT /apis/storage.k8s.io/v1/csinodes/b", `{"metadata":{"name":"b"},"spec":{"drivers":[]}}`, refused},
		{"DELETE /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/b", "", refused},
		{"POST /apis/resource.k8s.io/v1/resourceslices", slice, refused},
		{"DELETE /apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.nodeName%3Db", "", refused},
		{"PATCH /apis/certificates.k8s.io/v1/certificatesigningrequests/c/approval", `{"status":{"conditions":[]}}`, refused},
		{"PATCH /apis/certificates.k8s.io/v1/certificatesigningrequests/c/status", `{"status":{"certificate":"eA=="}}`, refused},
		{"GET /api/v1/namespaces/default/secrets/s", "", refused},
		{"GET /api/v1/namespaces/default/configmaps/kube-root-ca.crt", "", refused},
		{"POST /api/v1/namespaces/default/serviceaccounts/robot/token", `{"spec":{}}`, refused},
	})
}
