package secure_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/cmd/millrace/internal/secure"
	"github.com/millrace/millrace/millracetest"
)

// server is a Server with a cluster in which the account default/scraper may read metrics.
type server struct {
	t       *testing.T
	url     string
	kube    kubernetes.Interface
	cluster *millrace.Cluster
	sick    atomic.Bool
	header  http.Header // of requests
}

func start(t *testing.T, changes ...func(*secure.Options)) *server {
	t.Helper()
	cluster := millracetest.Start(t, millrace.Options{NoScheduler: true, Controllers: []string{"serviceaccount"}})
	s := &server{t: t, cluster: cluster, kube: millracetest.Clientset(t, cluster)}
	admin := cluster.Config()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(admin.CAData)
	o := secure.Options{
		Kube: s.kube, Clients: pool, Configuration: func() map[string]any { return map[string]any{"component": map[string]int{"n": 1}} },
		Checks: []secure.Check{{Name: "works", Live: true, Do: func(*http.Request) error {
			if s.sick.Load() {
				return errors.New("it is sick")
			}
			return nil
		}}},
		More: map[string]http.Handler{"GET /metrics": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "metric 1\n") })},
	}
	for _, change := range changes {
		change(&o)
	}
	opened, err := secure.Open(t.Context(), "127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- opened.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	s.url = "https://" + opened.Address()
	return s
}

// ask returns status and body of an answer. Certificate and token are optional.
func (s *server) ask(path, token string, certificate *tls.Certificate) (int, string) {
	s.t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	if certificate != nil {
		transport.TLSClientConfig.Certificates = []tls.Certificate{*certificate}
	}
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for name, values := range s.header {
		r.Header[name] = values
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

func (s *server) expect(what, path, token string, certificate *tls.Certificate, code int, part string) {
	s.t.Helper()
	if got, text := s.ask(path, token, certificate); got != code || !strings.Contains(text, part) {
		s.t.Errorf("%s: %d %s, expected %d %s", what, got, text, code, part)
	}
}

// token returns a token of an account that may get some paths.
func (s *server) token(account string, paths ...string) string {
	s.t.Helper()
	_, err := s.kube.CoreV1().ServiceAccounts("default").Create(s.t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	if len(paths) > 0 {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: account}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: paths}}}
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: account}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: account, APIGroup: rbacv1.GroupName},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: account}}}
		if _, err := s.kube.RbacV1().ClusterRoles().Create(s.t.Context(), role, metav1.CreateOptions{}); err != nil {
			s.t.Fatal(err)
		}
		if _, err := s.kube.RbacV1().ClusterRoleBindings().Create(s.t.Context(), binding, metav1.CreateOptions{}); err != nil {
			s.t.Fatal(err)
		}
	}
	made, err := s.kube.CoreV1().ServiceAccounts("default").CreateToken(s.t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return made.Status.Token
}

func TestOnlyAuthorizedClientsAreServed(t *testing.T) {
	s := start(t)
	scraper, other := s.token("scraper", "/metrics"), s.token("other")
	s.expect("a scraper", "/metrics", scraper, nil, 200, "metric 1")
	s.expect("a scraper, of another path", "/configz", scraper, nil, 403, `forbidden: User \"system:serviceaccount:default:scraper\" cannot get path \"/configz\"`)
	s.expect("somebody else", "/metrics", other, nil, 403, "cannot get path")
	s.expect("nobody", "/metrics", "", nil, 403, `User \"system:anonymous\" cannot get path \"/metrics\"`)
	s.expect("a token of nobody", "/metrics", "nonsense", nil, 401, "Unauthorized")
	s.expect("the same in a path that is not there", "/nothing", "nonsense", nil, 401, "Unauthorized")
	admin := s.cluster.Config()
	pair, err := tls.X509KeyPair(admin.CertData, admin.KeyData)
	if err != nil {
		t.Fatal(err)
	}
	s.expect("an administrator", "/configz", "", &pair, 200, `{"component":{"n":1}}`)
	stranger := millracetest.Start(t, millrace.Options{NoScheduler: true, Controllers: []string{}}).Config()
	if pair, err = tls.X509KeyPair(stranger.CertData, stranger.KeyData); err != nil {
		t.Fatal(err)
	}
	s.expect("an administrator of another cluster", "/configz", "", &pair, 401, "Unauthorized")
}

func TestHealthNeedsNoAuthorization(t *testing.T) {
	s := start(t)
	for _, path := range []string{"/healthz", "/livez", "/readyz"} {
		s.expect(path, path, "", nil, 200, "ok")
	}
	s.expect("in words", "/livez?verbose", "", nil, 200, "[+]ping ok\n[+]works ok\nlivez check passed\n")
	s.sick.Store(true)
	s.expect("sick", "/livez", "", nil, 500, "[-]works failed: reason withheld\nlivez check failed")
	s.expect("ready all the same", "/readyz", "", nil, 200, "ok")
}

func TestAProxyInFrontNamesItsClients(t *testing.T) {
	s := start(t, func(o *secure.Options) {
		o.Front = func(r *http.Request) (secure.Who, bool, error) {
			switch name := r.Header.Get("X-Remote-User"); {
			case name == "":
				return secure.Who{}, false, nil
			case r.Header.Get("X-Proof") == "":
				return secure.Who{}, false, errors.New("this is no proxy")
			default:
				return secure.Who{Name: name, Groups: []string{"system:masters"}}, true, nil
			}
		}
	})
	s.header = http.Header{"X-Remote-User": {"alice"}, "X-Proof": {"it is"}}
	s.expect("a proxy", "/configz", "", nil, 200, `{"component":{"n":1}}`)
	s.header.Del("X-Proof")
	s.expect("somebody who is no proxy", "/configz", "", nil, 401, "Unauthorized")
	s.expect("the same with a token", "/metrics", s.token("scraper", "/metrics"), nil, 200, "metric 1")
}

func TestProfilesAreServedOnlyIfWanted(t *testing.T) {
	for wanted, code := range map[bool]int{true: 200, false: 404} {
		s := start(t, func(o *secure.Options) { o.Profiling = wanted })
		s.expect("an authorized client", "/debug/pprof/cmdline", s.token("profiler", "/debug/*"), nil, code, "")
		s.expect("nobody", "/debug/pprof/cmdline", "", nil, 403, "cannot get path")
	}
}
