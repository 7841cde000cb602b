package access_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/server/auth/oidc/oidctest"
)

// authenticationFile writes an AuthenticationConfiguration that trusts these issuers.
func authenticationFile(t *testing.T, more string, issuers ...*oidctest.Issuer) string {
	t.Helper()
	var jwt []any
	for _, i := range issuers {
		jwt = append(jwt, map[string]any{
			"issuer":               map[string]any{"url": i.URL, "audiences": []string{"millrace"}, "certificateAuthority": i.Authority},
			"claimMappings":        map[string]any{"username": map[string]any{"expression": "'oidc:' + claims.sub"}, "groups": map[string]any{"expression": "claims.?groups.orValue([])"}},
			"claimValidationRules": []any{map[string]any{"expression": "claims.exp - claims.iat <= 86400", "message": "good for too long"}},
			"userValidationRules":  []any{map[string]any{"expression": "!user.groups.exists(g, g.startsWith('system:'))", "message": "reserved"}},
		})
	}
	text, err := json.Marshal(jwt)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "authentication.yaml")
	file := "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt: " + string(text) + "\n" + more
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// whoami returns the user that the server authenticates.
func (c *cluster) whoami(k kubernetes.Interface) (string, error) {
	me, err := k.AuthenticationV1().SelfSubjectReviews().Create(c.ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	return me.Status.UserInfo.Username + " " + strings.Join(me.Status.UserInfo.Groups, " "), err
}

func TestTokensOfIssuersElsewhereAreUsers(t *testing.T) {
	a, b := oidctest.Start(t), oidctest.Start(t)
	o := millrace.Options{Controllers: []string{}, NoScheduler: true}
	o.Authentication.ConfigFile = authenticationFile(t, "anonymous: {enabled: true, conditions: [{path: /livez}]}\n", a, b)
	c := start(t, o)
	c.bind("system:aggregate-to-view", rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "dev"})
	issued := time.Now().Unix()
	for _, i := range []*oidctest.Issuer{a, b} {
		token := i.Token(t, map[string]any{"iat": issued, "groups": []string{"dev"}})
		who, err := c.whoami(c.with(token))
		if err != nil || who != "oidc:alice dev system:authenticated" {
			t.Errorf("%s, %v", who, err)
		}
		if _, err := c.with(token).CoreV1().Pods("default").List(c.ctx, metav1.ListOptions{}); err != nil {
			t.Errorf("a role of the user's group: %v", err)
		}
		if _, err := c.with(token).CoreV1().Secrets("default").List(c.ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("what no role allows: %v", err)
		}
	}
	for what, claims := range map[string]map[string]any{
		"a reserved group":  {"iat": issued, "groups": []string{"system:masters"}},
		"good for too long": {"iat": issued, "exp": issued + 100_000},
		"expired":           {"iat": issued, "exp": issued - 1},
		"another audience":  {"iat": issued, "aud": "vault"},
	} {
		if who, err := c.whoami(c.with(a.Token(t, claims))); !apierrors.IsUnauthorized(err) {
			t.Errorf("%s: %s, %v", what, who, err)
		}
	}
	const own = "https://kubernetes.default.svc.cluster.local"
	for audience, want := range map[string]bool{own: true, "vault": false, "millrace": false} {
		r, err := c.admin.AuthenticationV1().TokenReviews().Create(c.ctx, &authenticationv1.TokenReview{
			Spec: authenticationv1.TokenReviewSpec{Token: a.Token(t, map[string]any{"iat": issued}), Audiences: []string{audience}}}, metav1.CreateOptions{})
		c.must(err)
		if r.Status.Authenticated != want {
			t.Errorf("reviewed for %s: %+v", audience, r.Status)
		}
	}
	nobody := c.client(rest.AnonymousClientConfig(c.Config())).Discovery().RESTClient()
	for path, want := range map[string]bool{"/livez": true, "/livez/": false, "/readyz": false, "/version": false} {
		if err := nobody.Get().AbsPath(path).Do(c.ctx).Error(); (err == nil) != want {
			t.Errorf("%s without credentials: %v", path, err)
		}
	}
	metrics, err := c.admin.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(c.ctx)
	c.must(err)
	for _, name := range []string{"apiserver_authentication_jwt_authenticator_latency_seconds_count", "apiserver_authentication_jwt_authenticator_jwks_fetch_last_timestamp_seconds",
		"apiserver_authentication_jwt_authenticator_jwks_fetch_last_key_set_info", "apiserver_authentication_config_controller_last_config_info"} {
		if !strings.Contains(string(metrics), "\n"+name+"{") {
			t.Errorf("there is no metric %s", name)
		}
	}
}

func TestAnIssuerThatIsAwayIsNoReasonNotToStart(t *testing.T) {
	i := oidctest.Start(t)
	i.Down(true)
	o := millrace.Options{Controllers: []string{}, NoScheduler: true}
	o.Authentication.OIDC = millrace.OIDCOptions{IssuerURL: i.URL, ClientID: "millrace", GroupsClaim: "groups", RequiredClaims: map[string]string{"hd": "example.com"}}
	path := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(path, []byte(i.Authority), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Authentication.OIDC.CAFile = path
	c := start(t, o)
	token := i.Token(t, map[string]any{"hd": "example.com", "groups": "dev"})
	r, err := c.admin.AuthenticationV1().TokenReviews().Create(c.ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	c.must(err)
	if r.Status.Authenticated || !strings.Contains(r.Status.Error, `oidc: authenticator for issuer "`+i.URL+`" is not`) {
		t.Errorf("%+v", r.Status)
	}
	if _, err := c.whoami(c.admin); err != nil {
		t.Errorf("others: %v", err)
	}
}

func TestConfigurationsOfAuthenticationThatCannotBeUsedAreRefused(t *testing.T) {
	i := oidctest.Start(t)
	file := authenticationFile(t, "", i)
	own := authenticationFile(t, "", &oidctest.Issuer{URL: "https://kubernetes.default.svc.cluster.local"})
	for want, o := range map[string]millrace.AuthenticationOptions{
		"authentication-config file and oidc-* flags are mutually exclusive": {ConfigFile: file, OIDC: millrace.OIDCOptions{IssuerURL: i.URL}},
		"URL must not overlap with disallowed issuers":                       {ConfigFile: own},
		"no such file or directory":                                          {ConfigFile: file + "x"},
		"URL scheme must be https":                                           {OIDC: millrace.OIDCOptions{IssuerURL: "http://a", ClientID: "b"}},
		`oidc: unsupported signing alg: "HS256"`:                             {OIDC: millrace.OIDCOptions{IssuerURL: "https://a", ClientID: "b", SigningAlgorithms: []string{"HS256"}}},
	} {
		c, err := millrace.Start(t.Context(), millrace.Options{Controllers: []string{}, NoScheduler: true, Authentication: o})
		if err == nil {
			_ = c.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, and not %s", err, want)
		}
	}
}
