// Package access is who may do what in a cluster: its keys and certificates, whom it authenticates, and what they may
// do.
package access

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/assembly"
	"github.com/millrace/millrace/internal/assembly/address"
	"github.com/millrace/millrace/internal/assembly/storage"
	"github.com/millrace/millrace/internal/server/actions"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/auth/webhook"
)

// Options are what an operator says about access.
type Options struct {
	// Keys is the directory of keys and certificates; empty keeps them in memory.
	Keys string
	// Hosts are further names and addresses in the serving certificate.
	Hosts []string
	// Serving are the files of the serving certificate, Proxy those of the client certificate as a front proxy, and
	// Kubelets those of the client certificate for kubelets. By default the cluster's own authorities sign them.
	Serving, Proxy, Kubelets Pair
	// OnlyGiven says that the serving certificate, the authorities of clients and the key of tokens are given. Then no
	// key is stored, and nobody is trusted or published but those in files.
	OnlyGiven bool
	// ClientCAFile and ProxyCAFile have further authorities of clients, and those of front proxies. KubeletCAFile has
	// those of kubelets' servers, which are not verified without it.
	ClientCAFile, ProxyCAFile, KubeletCAFile string
	TLS                                      TLS
	Tokens                                   Tokens
	// TokenFile has static tokens.
	TokenFile string
	// ConfigFile is an AuthenticationConfiguration, and OIDC a single issuer instead.
	ConfigFile   string
	OIDC         OIDC
	NoAnonymous  bool
	TokenWebhook webhook.TokenOptions
	// FrontProxy has the names of front proxies' certificates and of their headers.
	FrontProxy auth.FrontProxy
	// Modes are the authorization modes, in order. ModesFile is an AuthorizationConfiguration instead, ABACFile has the
	// policies of the mode ABAC, and Webhook is asked in the mode Webhook.
	Modes               []string
	ModesFile, ABACFile string
	Webhook             webhook.AuthorizerOptions
	// ServiceAddress is the one of the Service "kubernetes".
	ServiceAddress netip.Addr
	// OwnNodes says that the cluster has nodes in this process, which need the mode Node and the cluster's own client
	// certificate for kubelets.
	OwnNodes bool

	// Metrics gets the metrics of authentication and authorization.
	Metrics *prometheus.Registry
	Logger  *slog.Logger
}

// Pair are the files of a certificate and its key. They are read again when they change.
type Pair struct{ CertFile, KeyFile string }

func (p Pair) given() bool { return p != Pair{} }

// TLS configures the port.
type TLS struct {
	MinVersion   uint16
	CipherSuites []uint16
	Curves       []tls.CurveID
	Named        []NamedPair
}

// NamedPair are the files of a certificate for clients that ask for certain names.
type NamedPair struct {
	CertFile, KeyFile string
	Names             []string
}

// Tokens configure service account tokens.
type Tokens struct {
	Issuers, Audiences []string
	SigningKeyFile     string
	KeyFiles           []string
	KeysURI            string
	MaxLife            time.Duration
	NoExtension        bool
}

// Access is the part. Its fields exist from Start on.
type Access struct {
	o       Options
	address *address.Address
	storage *storage.Storage

	*Certificates
	Permissions *Permissions
	// Authenticate finds out who sends a request. Tokens does so for a token, and Issuer makes those of service
	// accounts.
	Authenticate auth.Authenticator
	Tokens       auth.Sources
	Issuer       *actions.Issuer
	// Kubelets is the client certificate for kubelets.
	Kubelets func() *tls.Certificate
	// Proxy is how this server identifies itself as a front proxy.
	Proxy *ProxyIdentity
}

// New makes the part. Nothing is read before Start.
func New(o Options, a *address.Address, s *storage.Storage) *Access {
	return &Access{o: o, address: a, storage: s}
}

// Start reads keys and certificates, and makes the authenticators and authorizers. Roles are not followed before
// Follow.
func (a *Access) Start(ctx context.Context, l *assembly.List) (err error) {
	if a.Certificates, err = a.o.openCertificates(append(a.names(), a.o.Hosts...), l); err != nil {
		return err
	}
	if a.Permissions, err = a.newPermissions(); err != nil {
		return err
	}
	a.o.Metrics.MustRegister(a.Permissions)
	if a.Kubelets, err = a.kubeletCertificate(l); err != nil {
		return err
	}
	if a.Proxy, err = a.openProxy(l); err != nil {
		return err
	}
	return a.openAuthentication(l)
}
