package access_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace"
)

type cluster struct {
	*testing.T
	*millrace.Cluster
	ctx   context.Context
	admin kubernetes.Interface
}

func start(t *testing.T, o millrace.Options) *cluster {
	t.Helper()
	c, err := millrace.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return of(t, c)
}

func of(t *testing.T, c *millrace.Cluster) *cluster {
	t.Helper()
	out := &cluster{T: t, Cluster: c, ctx: t.Context()}
	out.admin = out.client(c.Config())
	return out
}

// startAPIServer starts an API server without loops and nodes.
func startAPIServer(t *testing.T) *cluster {
	t.Helper()
	return start(t, millrace.Options{Controllers: []string{}, NoScheduler: true})
}

func (c *cluster) client(config *rest.Config) kubernetes.Interface {
	c.Helper()
	k, err := kubernetes.NewForConfig(config)
	c.must(err)
	return k
}

func (c *cluster) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// as returns a client of the administrator that impersonates a user.
func (c *cluster) as(user string, groups ...string) kubernetes.Interface {
	config := c.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	return c.client(config)
}

// with returns a client with a token.
func (c *cluster) with(token string) kubernetes.Interface {
	config := rest.AnonymousClientConfig(c.Config())
	config.BearerToken, config.QPS = token, -1
	return c.client(config)
}

func (c *cluster) account(name string) {
	c.Helper()
	_, err := c.admin.CoreV1().ServiceAccounts("default").Create(c.ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	c.must(err)
}

func (c *cluster) token(account string, audiences ...string) string {
	c.Helper()
	r, err := c.admin.CoreV1().ServiceAccounts("default").CreateToken(c.ctx, account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}, metav1.CreateOptions{})
	c.must(err)
	return r.Status.Token
}

func (c *cluster) bind(role string, subjects ...rbacv1.Subject) {
	c.Helper()
	_, err := c.admin.RbacV1().RoleBindings("default").Create(c.ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{GenerateName: "b-"}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}}, metav1.CreateOptions{})
	c.must(err)
}

func user(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}
}

func TestSomebodyImpersonatedIsToldWhatTheyMayNot(t *testing.T) {
	c := startAPIServer(t)
	_, err := c.as("alice").CoreV1().Pods("default").List(c.ctx, metav1.ListOptions{})
	const want = `pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "default"`
	if !apierrors.IsForbidden(err) || err.Error() != want {
		t.Errorf("%v", err)
	}
	c.bind("system:aggregate-to-view", user("alice"))
	if _, err := c.as("alice").CoreV1().Pods("default").List(c.ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("the binding is not seen by the next request: %v", err)
	}
	me, err := c.as("alice", "dev").AuthenticationV1().SelfSubjectReviews().Create(c.ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	c.must(err)
	if u := me.Status.UserInfo; u.Username != "alice" || strings.Join(u.Groups, " ") != "dev system:authenticated" {
		t.Errorf("%+v", u)
	}
}

func TestOnlyThoseImpersonateWhoMay(t *testing.T) {
	c := startAPIServer(t)
	c.account("robot")
	config := rest.AnonymousClientConfig(c.Config())
	config.BearerToken = c.token("robot")
	config.Impersonate = rest.ImpersonationConfig{UserName: "admin", Groups: []string{"system:masters"}}
	_, err := c.client(config).CoreV1().Pods("default").List(c.ctx, metav1.ListOptions{})
	const want = `pods is forbidden: User "system:serviceaccount:default:robot" cannot impersonate-on:user-info:list resource "pods" in API group "" in the namespace "default"`
	if !apierrors.IsForbidden(err) || err.Error() != want {
		t.Errorf("%v", err)
	}
}

func TestATokenOfAPodNamesThePodAndItsNode(t *testing.T) {
	c := startAPIServer(t)
	c.account("worker")
	node, err := c.admin.CoreV1().Nodes().Create(c.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}, metav1.CreateOptions{})
	c.must(err)
	pod, err := c.admin.CoreV1().Pods("default").Create(c.ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}, Spec: corev1.PodSpec{
		NodeName: "node", ServiceAccountName: "worker", Containers: []corev1.Container{{Name: "main", Image: "example.com/app:1"}},
	}}, metav1.CreateOptions{})
	c.must(err)
	token, err := c.admin.CoreV1().ServiceAccounts("default").CreateToken(c.ctx, "worker", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: "pod"},
	}}, metav1.CreateOptions{})
	c.must(err)
	me, err := c.with(token.Status.Token).AuthenticationV1().SelfSubjectReviews().Create(c.ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	c.must(err)
	for what, want := range map[string]string{"pod-name": "pod", "pod-uid": string(pod.UID), "node-name": "node", "node-uid": string(node.UID)} {
		if got := me.Status.UserInfo.Extra["authentication.kubernetes.io/"+what]; len(got) != 1 || got[0] != want {
			t.Errorf("%s is %v, want %s", what, got, want)
		}
	}
	if id := me.Status.UserInfo.Extra["authentication.kubernetes.io/credential-id"]; len(id) != 1 || !strings.HasPrefix(id[0], "JTI=") || id[0] == "JTI=" {
		t.Errorf("the token's identity is %v", id)
	}
}

func TestATokenIsReviewedForItsAudiences(t *testing.T) {
	c := startAPIServer(t)
	c.account("robot")
	const own = "https://kubernetes.default.svc.cluster.local"
	for _, test := range []struct {
		token, asked []string
		want         []string // the authenticated audiences; none if the token is not accepted
	}{
		{nil, nil, []string{own}},
		{nil, []string{own}, []string{own}},
		{nil, []string{"vault"}, nil},
		{nil, []string{"vault", own}, []string{own}},
		{[]string{"vault"}, []string{"vault"}, []string{"vault"}},
		{[]string{"vault"}, nil, nil},
		{[]string{"vault"}, []string{own}, nil},
		{[]string{"vault", "mail"}, []string{"mail", "post", "vault"}, []string{"mail", "vault"}},
	} {
		r, err := c.admin.AuthenticationV1().TokenReviews().Create(c.ctx, &authenticationv1.TokenReview{
			Spec: authenticationv1.TokenReviewSpec{Token: c.token("robot", test.token...), Audiences: test.asked}}, metav1.CreateOptions{})
		c.must(err)
		if r.Status.Authenticated != (test.want != nil) || strings.Join(r.Status.Audiences, " ") != strings.Join(test.want, " ") {
			t.Errorf("a token for %v reviewed for %v: %+v", test.token, test.asked, r.Status)
		}
	}
	if _, err := c.with(c.token("robot", "vault")).Discovery().ServerGroups(); !apierrors.IsUnauthorized(err) {
		t.Errorf("a token for others is taken by the API server: %v", err)
	}
}

func TestATokenThatSaysNothingOfAudiencesIsForTheServerAlone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte("secret,carol,1,dev\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := start(t, millrace.Options{Controllers: []string{}, NoScheduler: true, TokenFile: file})
	_, err := c.admin.CoreV1().Secrets("kube-system").Create(c.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-abcdef"}, Type: corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true"},
	}, metav1.CreateOptions{})
	c.must(err)
	const own = "https://kubernetes.default.svc.cluster.local"
	for token, holder := range map[string]string{"secret": "carol", "abcdef.0123456789abcdef": "system:bootstrap:abcdef"} {
		for _, test := range []struct{ asked, want []string }{{nil, []string{own}}, {[]string{"vault", own}, []string{own}}, {[]string{"vault"}, nil}} {
			r, err := c.admin.AuthenticationV1().TokenReviews().Create(c.ctx, &authenticationv1.TokenReview{
				Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: test.asked}}, metav1.CreateOptions{})
			c.must(err)
			believed := test.want != nil
			if r.Status.Authenticated != believed || (r.Status.User.Username == holder) != believed || !slices.Equal(r.Status.Audiences, test.want) {
				t.Errorf("the token of %s reviewed for %v: %+v", holder, test.asked, r.Status)
			}
		}
	}
}

func TestATokenEndsWithWhatItIsBoundTo(t *testing.T) {
	c := startAPIServer(t)
	c.account("robot")
	token := c.token("robot")
	if _, err := c.with(token).Discovery().ServerGroups(); err != nil {
		t.Fatal(err)
	}
	c.must(c.admin.CoreV1().ServiceAccounts("default").Delete(c.ctx, "robot", metav1.DeleteOptions{}))
	c.account("robot")
	if _, err := c.with(token).Discovery().ServerGroups(); !apierrors.IsUnauthorized(err) {
		t.Errorf("a token of an account that was replaced is believed: %v", err)
	}
}

func TestRulesOfOneselfAreComplete(t *testing.T) {
	c := startAPIServer(t)
	c.bind("system:aggregate-to-view", user("alice"))
	r, err := c.as("alice").AuthorizationV1().SelfSubjectRulesReviews().Create(c.ctx, &authorizationv1.SelfSubjectRulesReview{
		Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "default"}}, metav1.CreateOptions{})
	c.must(err)
	pods := false
	for _, rule := range r.Status.ResourceRules {
		pods = pods || strings.Contains(strings.Join(rule.Resources, " "), "pods/log")
	}
	if !pods || r.Status.Incomplete || len(r.Status.NonResourceRules) == 0 {
		t.Errorf("%+v", r.Status)
	}
	s, err := c.admin.AuthorizationV1().SubjectAccessReviews().Create(c.ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "alice", Groups: []string{"system:authenticated"}, ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods", Namespace: "default"}}}, metav1.CreateOptions{})
	c.must(err)
	if !s.Status.Allowed || !strings.HasPrefix(s.Status.Reason, "RBAC: allowed by RoleBinding ") {
		t.Errorf("%+v", s.Status)
	}
}

func TestWhatOnlyBeginsLikeAReviewIsNotAllowed(t *testing.T) {
	c := startAPIServer(t)
	c.account("robot")
	robot := c.with(c.token("robot"))
	for _, path := range []string{"/apis/example.com/v1/selfsubjectthings", "/apis/apps/v1/selfsubjectaccessreviews"} {
		err := robot.Discovery().RESTClient().Post().AbsPath(path).Body([]byte("{}")).Do(c.ctx).Error()
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestATokenOfAPodIsValidBeyondItsRenewal(t *testing.T) {
	c := startAPIServer(t)
	_, err := c.admin.CoreV1().ServiceAccounts("default").Create(c.ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}, metav1.CreateOptions{})
	c.must(err)
	_, err = c.admin.CoreV1().Pods("default").Create(c.ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}, Spec: corev1.PodSpec{
		ServiceAccountName: "worker", Containers: []corev1.Container{{Name: "main", Image: "example.com/app:1"}},
	}}, metav1.CreateOptions{})
	c.must(err)
	for name, want := range map[string]struct {
		seconds   int64
		audiences []string
		life      time.Duration
		warns     bool
	}{
		"as the kubelet asks for it": {3607, nil, 365 * 24 * time.Hour, true},
		"for another life":           {3600, nil, time.Hour, false},
		"for another server":         {3607, []string{"vault.example"}, 3607 * time.Second, false},
	} {
		r, err := c.admin.CoreV1().ServiceAccounts("default").CreateToken(c.ctx, "worker", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			Audiences: want.audiences, ExpirationSeconds: &want.seconds, BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: "pod"},
		}}, metav1.CreateOptions{})
		c.must(err)
		var said struct {
			Issued, Expires int64
			Kubernetes      struct{ WarnAfter *int64 }
		}
		text, err := base64.RawURLEncoding.DecodeString(strings.Split(r.Status.Token, ".")[1])
		c.must(err)
		text = []byte(strings.NewReplacer(`"iat"`, `"Issued"`, `"exp"`, `"Expires"`, `"kubernetes.io"`, `"Kubernetes"`).Replace(string(text)))
		c.must(json.Unmarshal(text, &said))
		if life := time.Duration(said.Expires-said.Issued) * time.Second; life != want.life || (said.Kubernetes.WarnAfter != nil) != want.warns {
			t.Errorf("%s: it is valid for %v and says %s", name, life, text)
		}
		if *r.Spec.ExpirationSeconds != want.seconds {
			t.Errorf("%s: the kubelet is told %d seconds", name, *r.Spec.ExpirationSeconds)
		}
	}
}
