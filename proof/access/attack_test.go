package access_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/millrace/millrace"
)

// secretValue is the content of a secret that no attacker may read.
const secretValue = "dHJlYXN1cmU="

// startWithSecret starts a cluster with a secret, and a service account "robot" in the namespace default that may read
// config maps there and a path.
func startWithSecret(t *testing.T, o millrace.Options) *cluster {
	t.Helper()
	o.Controllers = []string{}
	return startWithSecretAnd(t, o)
}

// startWithSecretAnd does the same with the controllers of the options.
func startWithSecretAnd(t *testing.T, o millrace.Options) *cluster {
	t.Helper()
	o.NoScheduler = true
	c := start(t, o)
	c.account("robot")
	for _, namespace := range []string{"default", "kube-system"} {
		_, err := c.admin.CoreV1().Secrets(namespace).Create(c.ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{"k": []byte("treasure")}}, metav1.CreateOptions{})
		c.must(err)
	}
	c.grant("robot", rbacv1.PolicyRule{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{""}, Resources: []string{"configmaps"}})
	return c
}

// grant binds a role with these rules to a service account in the namespace default.
func (c *cluster) grant(account string, rules ...rbacv1.PolicyRule) (name string) {
	c.Helper()
	r, err := c.admin.RbacV1().Roles("default").Create(c.ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{GenerateName: "r-"}, Rules: rules}, metav1.CreateOptions{})
	c.must(err)
	b, err := c.admin.RbacV1().RoleBindings("default").Create(c.ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{GenerateName: "b-"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: "default"}},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: r.Name}}, metav1.CreateOptions{})
	c.must(err)
	return b.Name
}

// grantEverywhere binds a cluster role with these rules to a user.
func (c *cluster) grantEverywhere(name string, rules ...rbacv1.PolicyRule) {
	c.Helper()
	r, err := c.admin.RbacV1().ClusterRoles().Create(c.ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "r-"}, Rules: rules}, metav1.CreateOptions{})
	c.must(err)
	_, err = c.admin.RbacV1().ClusterRoleBindings().Create(c.ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{GenerateName: "b-"}, Subjects: []rbacv1.Subject{user(name)},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: r.Name}}, metav1.CreateOptions{})
	c.must(err)
}

// clientOf returns a client with a certificate of a user.
func (c *cluster) clientOf(name string, groups ...string) kubernetes.Interface {
	c.Helper()
	config, err := c.User(name, groups...)
	c.must(err)
	return c.client(config)
}

// sendRaw sends the lines of a request over a new connection, and returns the answer.
func (c *cluster) sendRaw(lines ...string) (code int, body string) {
	c.Helper()
	config := c.Config()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(config.CAData)
	at, err := url.Parse(config.Host)
	c.must(err)
	conn, err := tls.Dial("tcp", at.Host, &tls.Config{RootCAs: pool, NextProtos: []string{"http/1.1"}})
	c.must(err)
	defer conn.Close()
	c.must(conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = io.WriteString(conn, strings.Join(lines, "\r\n")+"\r\n\r\n")
	c.must(err)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, ""
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(text)
}

func TestNoTrickWithHeadersOpensADoor(t *testing.T) {
	c := startWithSecret(t, millrace.Options{})
	robot := "Authorization: Bearer " + c.token("robot")
	begin := []string{"GET /api/v1/namespaces/default/secrets HTTP/1.1", "Host: a", "Connection: close"}
	if code, _ := c.sendRaw("GET /api/v1/namespaces/default/configmaps HTTP/1.1", "Host: a", "Connection: close", robot); code != 200 {
		t.Fatalf("what is allowed: %d", code)
	}
	for _, headers := range [][]string{
		{},
		{"Authorization: Bearer "},
		{"Authorization: Bearer x"},
		{"Authorization: Basic YWRtaW46YWRtaW4="},
		{robot},
		{robot, "Authorization: Bearer x"},
		{"Authorization: Bearer x", robot},
		{"authorization: Bearer x", robot},
		{robot, "X-Remote-User: admin", "X-Remote-Group: system:masters"},
		{"X-Remote-User: admin", "X-Remote-Group: system:masters"},
		{"X-Remote-User: system:apiserver"},
		{"X-Forwarded-User: admin"},
		{robot, "Impersonate-User: admin", "Impersonate-Group: system:masters"},
		{robot, "impersonate-user: admin", "IMPERSONATE-GROUP: system:masters"},
		{robot, "Impersonate-User: system:serviceaccount:default:robot", "Impersonate-User: admin"},
		{robot, "Impersonate-Group: system:masters"},
		{robot, "Impersonate-User: system:serviceaccount:default:robot", "Impersonate-Group: system:masters"},
		{robot, "Impersonate-Uid: 1"},
		{robot, "Impersonate_User: admin"},
		{robot, "Impersonate-User : admin"},
		{robot, "Connection: Authorization, Impersonate-User", "Impersonate-User: admin"},
		{robot, "X-Http-Method-Override: OPTIONS"},
		{robot, "X-Original-Url: /api/v1/namespaces/default/configmaps"},
		{robot, "Transfer-Encoding: chunked", "Content-Length: 3"},
		{robot, "Content-Length: 3", "Content-Length: 4"},
		{robot, "Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.eA"},
		{"Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.eA, base64url.bearer.authorization.k8s.io.eQ"},
		{"Cookie: token=x"},
	} {
		if code, body := c.sendRaw(append(begin[:len(begin):len(begin)], headers...)...); code < 400 && code != 0 || strings.Contains(body, secretValue) {
			t.Errorf("%q: %d %s", headers, code, body)
		}
	}
}

func TestNoTrickWithPathsOpensADoor(t *testing.T) {
	c := startWithSecret(t, millrace.Options{})
	robot := "Authorization: Bearer " + c.token("robot")
	for _, path := range []string{
		"/api/v1/namespaces/default/secrets", "/api/v1/namespaces/default/secrets/", "/api/v1/namespaces/default/secrets/s", "/api/v1/secrets",
		"/api/v1/namespaces/default/configmaps/../secrets", "/api/v1/namespaces/default/configmaps/../secrets/s", "/api/v1/namespaces/default/configmaps/..%2fsecrets",
		"/api/v1/namespaces/default/configmaps%2f..%2fsecrets", "/api/v1/namespaces/default/%73ecrets", "/api/v1/namespaces/default/secrets%2fs", "/api/v1/namespaces/default/configmaps/..%5csecrets",
		"/api/v1/namespaces/default/../kube-system/secrets", "/api/v1/namespaces/default%2f..%2fkube-system/secrets", "/api/v1/namespaces/./default/secrets",
		"//api/v1/namespaces/default/secrets", "/api//v1/namespaces/default/secrets", "/api/v1/namespaces//default/secrets", "/api/v1/namespaces//secrets",
		"/API/v1/namespaces/default/secrets", "/api/V1/namespaces/default/secrets", "/api/v1/Namespaces/default/secrets", "/api/v1/namespaces/default/Secrets", "/api/v1/namespaces/DEFAULT/secrets",
		"/api/v1/watch/namespaces/default/secrets", "/api/v1/watch/secrets?timeoutSeconds=1", "/api/v1/namespaces/default/secrets?watch=1&timeoutSeconds=1", "/api/v1/namespaces/default/secrets;a=b",
		"/api/v1/namespaces/default/secrets%00", "/api/v1/namespaces/default/secrets%20", "/api/v1/namespaces/default/secrets#/configmaps",
		"/healthz/../api/v1/namespaces/default/secrets", "/version/../api/v1/secrets", "/healthz/%2e%2e/api/v1/secrets", "/openapi/v2/../../api/v1/secrets", "/api/v1/../../api/v1/secrets",
		"/apis//v1/namespaces/default/secrets", "/apis/v1/namespaces/default/secrets", "/apis/core/v1/namespaces/default/secrets", "/api/v1/proxy/namespaces/default/secrets",
		"http://a/api/v1/namespaces/default/secrets", "https://other/api/v1/secrets", "*",
	} {
		for _, method := range []string{"GET", "get", "HEAD", "POST"} {
			if code, body := c.sendRaw(method+" "+path+" HTTP/1.1", "Host: a", "Connection: close", robot); code/100 == 2 || strings.Contains(body, secretValue) {
				t.Errorf("%s %s: %d %s", method, path, code, body)
			}
		}
	}
}

func TestCertificatesThatAreNotToBeBelieved(t *testing.T) {
	keys := t.TempDir()
	c, other := startWithSecret(t, millrace.Options{Keys: keys}), startAPIServer(t)
	foreign, err := other.User("admin", "system:masters")
	c.must(err)
	config := rest.AnonymousClientConfig(c.Config())
	config.CertData, config.KeyData = foreign.CertData, foreign.KeyData
	if _, err := c.client(config).CoreV1().Secrets("default").List(c.ctx, metav1.ListOptions{}); err == nil {
		t.Error("a certificate of another authority is believed")
	}
	for life, want := range map[time.Duration]bool{time.Nanosecond: false, time.Hour: true} {
		text, err := millrace.UserKubeconfig(keys, c.Config().Host, "admin", []string{"system:masters"}, life)
		c.must(err)
		config, err := clientcmd.RESTConfigFromKubeConfig(text)
		c.must(err)
		if _, err := c.client(config).CoreV1().Secrets("default").List(c.ctx, metav1.ListOptions{}); (err == nil) != want {
			t.Errorf("a certificate that is good for %v: %v", life, err)
		}
	}
}

func TestANodeGetsNothingOfOthers(t *testing.T) {
	c := startWithSecret(t, millrace.Options{})
	for _, name := range []string{"a", "b"} {
		_, err := c.admin.CoreV1().Nodes().Create(c.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		c.must(err)
		_, err = c.admin.CoreV1().Pods("default").Create(c.ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "on-" + name}, Spec: corev1.PodSpec{NodeName: name, ServiceAccountName: "robot",
			Containers: []corev1.Container{{Name: "c", Image: "i", EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "of-" + name}}}}}}}}, metav1.CreateOptions{})
		c.must(err)
		_, err = c.admin.CoreV1().Secrets("default").Create(c.ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "of-" + name}}, metav1.CreateOptions{})
		c.must(err)
	}
	a := c.clientOf("system:node:a", "system:nodes")
	if _, err := a.CoreV1().Secrets("default").Get(c.ctx, "of-a", metav1.GetOptions{}); err != nil {
		t.Errorf("the secret of its pod: %v", err)
	}
	robots := a.CoreV1().ServiceAccounts("default")
	b, err := c.admin.CoreV1().Pods("default").Get(c.ctx, "on-b", metav1.GetOptions{})
	c.must(err)
	label := []byte(`{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`)
	for what, try := range map[string]func() error{
		"another's secret": func() error {
			_, err := a.CoreV1().Secrets("default").Get(c.ctx, "of-b", metav1.GetOptions{})
			return err
		},
		"all secrets": func() error { _, err := a.CoreV1().Secrets("default").List(c.ctx, metav1.ListOptions{}); return err },
		"a secret by name": func() error {
			_, err := a.CoreV1().Secrets("default").List(c.ctx, metav1.ListOptions{FieldSelector: "metadata.name=of-b"})
			return err
		},
		"a watch of another's": func() error {
			_, err := a.CoreV1().Secrets("default").Watch(c.ctx, metav1.ListOptions{FieldSelector: "metadata.name=of-b"})
			return err
		},
		"all pods": func() error { _, err := a.CoreV1().Pods("").List(c.ctx, metav1.ListOptions{}); return err },
		"another's pods": func() error {
			_, err := a.CoreV1().Pods("").List(c.ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=b"})
			return err
		},
		"another's pod": func() error { _, err := a.CoreV1().Pods("default").Get(c.ctx, "on-b", metav1.GetOptions{}); return err },
		"another node": func() error {
			_, err := a.CoreV1().Nodes().Patch(c.ctx, "b", types.MergePatchType, []byte(`{"metadata":{"labels":{"x":"y"}}}`), metav1.PatchOptions{})
			return err
		},
		"a role of its own": func() error {
			_, err := a.CoreV1().Nodes().Patch(c.ctx, "a", types.MergePatchType, label, metav1.PatchOptions{})
			return err
		},
		"to end another's": func() error { return a.CoreV1().Pods("default").Delete(c.ctx, "on-b", metav1.DeleteOptions{}) },
		"another's token": func() error {
			_, err := robots.CreateToken(c.ctx, "robot", tokenFor("on-b", b.UID), metav1.CreateOptions{})
			return err
		},
		"a token for nothing": func() error {
			_, err := robots.CreateToken(c.ctx, "robot", tokenFor("", ""), metav1.CreateOptions{})
			return err
		},
		"a token without a pod of it": func() error {
			_, err := robots.CreateToken(c.ctx, "default", tokenFor("on-a", ""), metav1.CreateOptions{})
			return err
		},
		"a role": func() error {
			_, err := a.RbacV1().ClusterRoleBindings().Create(c.ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Subjects: []rbacv1.Subject{user("system:node:a")},
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}}, metav1.CreateOptions{})
			return err
		},
		"its secret without its group": func() error {
			_, err := c.clientOf("system:node:a").CoreV1().Secrets("default").Get(c.ctx, "of-a", metav1.GetOptions{})
			return err
		},
		"its secret as a node of no name": func() error {
			_, err := c.clientOf("system:node:", "system:nodes").CoreV1().Secrets("default").Get(c.ctx, "of-a", metav1.GetOptions{})
			return err
		},
	} {
		if err := try(); !apierrors.IsForbidden(err) {
			t.Errorf("a node gets %s: %v", what, err)
		}
	}
}

func TestNobodyRisesByWhatTheyMayWrite(t *testing.T) {
	c := startWithSecret(t, millrace.Options{})
	// Eve may write roles, bindings, CSRs and pods, and has no other permissions.
	all := []string{"get", "list", "create", "update", "patch", "delete"}
	c.grantEverywhere("eve",
		rbacv1.PolicyRule{Verbs: all, APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles", "clusterrolebindings", "roles", "rolebindings"}},
		rbacv1.PolicyRule{Verbs: all, APIGroups: []string{certificatesv1.GroupName}, Resources: []string{"certificatesigningrequests", "certificatesigningrequests/approval", "certificatesigningrequests/status"}},
		rbacv1.PolicyRule{Verbs: all, APIGroups: []string{""}, Resources: []string{"pods"}},
		rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods/exec", "serviceaccounts"}})
	eve := c.clientOf("eve")
	secrets := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}}
	binding := func(kind, name string) *rbacv1.RoleBinding {
		return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{GenerateName: "x-"}, Subjects: []rbacv1.Subject{user("eve")}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}, ServiceAccountName: "robot"}}
	_, err := c.admin.CoreV1().Pods("default").Create(c.ctx, pod, metav1.CreateOptions{})
	c.must(err)
	for what, try := range map[string]func() error{
		"a role with more": func() error {
			_, err := eve.RbacV1().Roles("default").Create(c.ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Rules: []rbacv1.PolicyRule{secrets}}, metav1.CreateOptions{})
			return err
		},
		"a binding to more": func() error {
			_, err := eve.RbacV1().RoleBindings("default").Create(c.ctx, binding("ClusterRole", "cluster-admin"), metav1.CreateOptions{})
			return err
		},
		"a role that gathers": func() error {
			_, err := eve.RbacV1().ClusterRoles().Create(c.ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "x"}, AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{}}}}, metav1.CreateOptions{})
			return err
		},
		"a part of the role admin": func() error {
			_, err := eve.RbacV1().ClusterRoles().Create(c.ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "x", Labels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-admin": "true"}}, Rules: []rbacv1.PolicyRule{secrets}}, metav1.CreateOptions{})
			return err
		},
		"a patch of another role": func() error {
			_, err := eve.RbacV1().ClusterRoles().Patch(c.ctx, "system:discovery", types.JSONPatchType, []byte(`[{"op":"add","path":"/rules/-","value":{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}}]`), metav1.PatchOptions{})
			return err
		},
		"an apply of a role": func() error {
			_, err := eve.RbacV1().Roles("default").Patch(c.ctx, "x", types.ApplyPatchType, []byte(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"x"},"rules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}]}`), metav1.PatchOptions{FieldManager: "x"})
			return err
		},
		"an ephemeral container": func() error {
			_, err := eve.CoreV1().Pods("default").Patch(c.ctx, "p", types.StrategicMergePatchType, []byte(`{"spec":{"ephemeralContainers":[{"name":"e","image":"i"}]}}`), metav1.PatchOptions{}, "ephemeralcontainers")
			return err
		},
		"a token": func() error {
			_, err := eve.CoreV1().ServiceAccounts("default").CreateToken(c.ctx, "robot", tokenFor("", ""), metav1.CreateOptions{})
			return err
		},
		"a session": func() error {
			return eve.CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces/default/pods/p/exec").Param("command", "id").SetHeader("Connection", "Upgrade").SetHeader("Upgrade", "websocket").Do(c.ctx).Error()
		},
		"a certificate of the masters": func() error {
			_, err := eve.CertificatesV1().CertificateSigningRequests().Create(c.ctx, c.request(t, "eve", "system:masters"), metav1.CreateOptions{})
			return err
		},
		"an approval": func() error {
			r, err := eve.CertificatesV1().CertificateSigningRequests().Create(c.ctx, c.request(t, "admin", "dev"), metav1.CreateOptions{})
			c.must(err)
			r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "x"}}
			_, err = eve.CertificatesV1().CertificateSigningRequests().UpdateApproval(c.ctx, r.Name, r, metav1.UpdateOptions{})
			return err
		},
		"a certificate that she signs": func() error {
			r, err := eve.CertificatesV1().CertificateSigningRequests().Create(c.ctx, c.request(t, "admin", "dev"), metav1.CreateOptions{})
			c.must(err)
			r.Status.Certificate = c.Config().CertData
			_, err = eve.CertificatesV1().CertificateSigningRequests().UpdateStatus(c.ctx, r, metav1.UpdateOptions{})
			return err
		},
	} {
		if err := try(); !apierrors.IsForbidden(err) {
			t.Errorf("eve gets %s: %v", what, err)
		}
	}
	if _, err := eve.RbacV1().RoleBindings("default").Create(c.ctx, binding("Role", "not-yet"), metav1.CreateOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a binding to a role that is still to come: %v", err)
	}
	if _, err := eve.CoreV1().Secrets("default").Get(c.ctx, "s", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("afterwards: %v", err)
	}
}

func TestNoProxyLeadsBackToTheServer(t *testing.T) {
	c := startWithSecret(t, millrace.Options{})
	everything := []string{"get", "create", "update"}
	c.grantEverywhere("eve", rbacv1.PolicyRule{Verbs: everything, APIGroups: []string{""}, Resources: []string{"nodes/proxy", "services/proxy", "pods/proxy"}})
	host, port, err := net.SplitHostPort(strings.TrimPrefix(c.Config().Host, "https://"))
	c.must(err)
	node, err := c.admin.CoreV1().Nodes().Create(c.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "mirror"}}, metav1.CreateOptions{})
	c.must(err)
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}}
	_, err = fmt.Sscan(port, &node.Status.DaemonEndpoints.KubeletEndpoint.Port)
	c.must(err)
	_, err = c.admin.CoreV1().Nodes().UpdateStatus(c.ctx, node, metav1.UpdateOptions{})
	c.must(err)
	eve := c.clientOf("eve").Discovery().RESTClient()
	for _, path := range []string{
		"/api/v1/nodes/mirror/proxy/api/v1/secrets", "/api/v1/nodes/https:mirror:" + port + "/proxy/api/v1/secrets", "/api/v1/nodes/mirror:" + port + "/proxy/api/v1/secrets",
		"/api/v1/namespaces/default/services/https:kubernetes:443/proxy/api/v1/secrets", "/api/v1/namespaces/default/services/https:kubernetes:https/proxy/api/v1/secrets",
		"/api/v1/nodes/mirror/proxy/api/v1/nodes/mirror/proxy/api/v1/secrets",
	} {
		r := eve.Get().AbsPath(path).SetHeader("X-Remote-User", "admin").SetHeader("X-Remote-Group", "system:masters").SetHeader("Impersonate-Group", "").Do(c.ctx)
		if text, err := r.Raw(); err == nil || strings.Contains(string(text), secretValue) {
			t.Errorf("%s: %s", path, text)
		}
	}
}

func TestAWatchOutlivesItsRoleAsInKubernetes(t *testing.T) {
	c := startWithSecret(t, millrace.Options{})
	binding := c.grant("robot", rbacv1.PolicyRule{Verbs: []string{"watch"}, APIGroups: []string{""}, Resources: []string{"serviceaccounts"}})
	robot := c.with(c.token("robot")).CoreV1().ServiceAccounts("default")
	w, err := robot.Watch(c.ctx, metav1.ListOptions{})
	c.must(err)
	defer w.Stop()
	c.must(c.admin.RbacV1().RoleBindings("default").Delete(c.ctx, binding, metav1.DeleteOptions{}))
	if _, err := robot.Watch(c.ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the next watch: %v", err)
	}
	c.account("late")
	for e := range w.ResultChan() {
		if a, ok := e.Object.(*corev1.ServiceAccount); ok && a.Name == "late" {
			return
		}
	}
	t.Error("the watch ended with its role: Kubernetes looks at permissions when it begins")
}
