package ports

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/millrace/millrace/cmd/millrace/internal/secure"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/loop"
)

// accessFlags configure who may ask a component for its metrics, under the names of kube-controller-manager and
// kube-scheduler.
type accessFlags struct {
	authenticate, authorize      string
	open                         []string
	tokensFor, allowFor, denyFor time.Duration
	proxies                      string
	front                        auth.FrontProxy
}

func (f *accessFlags) add(fl *pflag.FlagSet) {
	fl.StringVar(&f.authenticate, "authentication-kubeconfig", "", "kubeconfig of the API server that authenticates clients' tokens (default: as --kubeconfig)")
	fl.StringVar(&f.authorize, "authorization-kubeconfig", "", "kubeconfig of the API server that authorizes clients (default: as --kubeconfig)")
	fl.StringSliceVar(&f.open, "authorization-always-allow-paths", []string{"/healthz", "/readyz", "/livez"}, `paths that need no authorization; one that ends in "/*" includes all paths below`)
	const kept = 10 * time.Second
	fl.DurationVar(&f.tokensFor, "authentication-token-webhook-cache-ttl", kept, "how long the result of authenticating a token is used")
	fl.DurationVar(&f.allowFor, "authorization-webhook-cache-authorized-ttl", kept, "how long it is remembered that a client is authorized")
	fl.DurationVar(&f.denyFor, "authorization-webhook-cache-unauthorized-ttl", kept, "how long it is remembered that a client is not authorized")
	fl.StringVar(&f.proxies, "requestheader-client-ca-file", "", "CA certificates of proxies that authenticate clients, and name them in headers")
	p := &f.front
	fl.StringSliceVar(&p.Names, "requestheader-allowed-names", nil, "common names that the proxies' certificates may have (default: all)")
	fl.StringSliceVar(&p.UserHeaders, "requestheader-username-headers", []string{"x-remote-user"}, "headers with the user's name; the first one that is there counts")
	fl.StringSliceVar(&p.UIDHeaders, "requestheader-uid-headers", nil, "headers with the user's UID; the first one that is there counts")
	fl.StringSliceVar(&p.GroupHeaders, "requestheader-group-headers", []string{"x-remote-group"}, "headers with the user's groups")
	fl.StringSliceVar(&p.ExtraPrefixes, "requestheader-extra-headers-prefix", []string{"x-remote-extra-"}, "beginnings of headers with more about the user")
}

// apply sets the options. It adds the proxies' authorities to hints.
func (f *accessFlags) apply(o *secure.Options, clients *loop.Clients, hints *x509.CertPool) (err error) {
	o.Open, o.Kube, o.Access = f.open, clients.Kube, clients.Kube
	if f.authenticate != "" {
		if o.Kube, err = reviewer("authentication-kubeconfig", f.authenticate); err != nil {
			return err
		}
		o.Access = o.Kube
	}
	if f.authorize != "" {
		if o.Access, err = reviewer("authorization-kubeconfig", f.authorize); err != nil {
			return err
		}
	}
	for to, d := range map[*time.Duration]time.Duration{&o.TokensFor: f.tokensFor, &o.AllowedFor: f.allowFor, &o.DeniedFor: f.denyFor} {
		if *to = d; d == 0 {
			*to = -1
		}
	}
	if f.proxies == "" {
		return nil
	}
	text, err := os.ReadFile(f.proxies)
	if err != nil {
		return fmt.Errorf("--requestheader-client-ca-file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return fmt.Errorf("--requestheader-client-ca-file: no PEM certificate is there")
	}
	hints.AppendCertsFromPEM(text)
	f.front.Clients = func() *x509.CertPool { return pool }
	o.Front = func(r *http.Request) (secure.Who, bool, error) {
		u, ok, err := f.front.Authenticate(r, time.Now())
		return secure.Who{Name: u.Name, UID: u.UID, Groups: u.Groups, Extra: u.Extra}, ok, err
	}
	return nil
}

// reviewer returns the client for TokenReviews or SubjectAccessReviews.
func reviewer(flag, path string) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return kubernetes.NewForConfig(config)
}
