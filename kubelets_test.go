package millrace_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/millracetest"
)

func TestAServiceAccountWithTheRightRoleReadsTheMetricsOfANode(t *testing.T) {
	kube := clientset(t, start(t, millrace.Options{Nodes: 1}))
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "collector"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes/metrics"}, Verbs: []string{"get"}}}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "collector"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "collector"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "collector"}}}
	if _, err := kube.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := kube.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	node := millracetest.Wait(t, kube.CoreV1().Nodes(), "hollow-0", func(n *corev1.Node) bool { return n.Status.DaemonEndpoints.KubeletEndpoint.Port > 0 })
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	for account, want := range map[string]int{"collector": http.StatusOK, "other": http.StatusForbidden, "": http.StatusUnauthorized} {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("https://%s:%d/metrics/resource", node.Status.Addresses[0].Address, node.Status.DaemonEndpoints.KubeletEndpoint.Port), nil)
		if err != nil {
			t.Fatal(err)
		}
		if account != "" {
			if _, err := kube.CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			token, err := kube.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			q.Header.Set("Authorization", "Bearer "+token.Status.Token)
		}
		answer, err := transport.RoundTrip(q)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != want || want == http.StatusOK && !strings.Contains(string(text), "\nnode_cpu_usage_seconds_total ") {
			t.Errorf("%q gets %d, %v: %s", account, answer.StatusCode, err, text)
		}
	}
}
