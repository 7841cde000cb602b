package millrace

import (
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"slices"

	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/auth/chain"
	"github.com/millrace/millrace/internal/server/auth/oidc"
	"github.com/millrace/millrace/internal/server/auth/webhook"
	"github.com/millrace/millrace/internal/server/h2"
	"github.com/millrace/millrace/internal/server/pki"
)

// AuthenticationOptions configure who is authenticated, besides certificates and tokens of the cluster itself.
type AuthenticationOptions struct {
	// ConfigFile is an AuthenticationConfiguration of apiserver.config.k8s.io: the trusted issuers of tokens, and which requests
	// may be anonymous. It is reloaded when it changes.
	ConfigFile string
	// OIDC configures a single issuer.
	OIDC OIDCOptions
	// NoAnonymous refuses requests without credentials. The setting in ConfigFile has precedence.
	NoAnonymous bool
	// TokenWebhook is asked for tokens that no other authenticator knows.
	TokenWebhook webhook.TokenOptions
	// ProxyCAFile has the CA certificates of front proxies. Proxy has the names of their certificates and headers.
	ProxyCAFile string
	Proxy       auth.FrontProxy
}

// frontProxy returns how front proxies are authenticated, or nil.
func (c *Cluster) frontProxy() (*auth.FrontProxy, error) {
	o := c.options.Authentication
	if o.ProxyCAFile == "" {
		return nil, nil
	}
	authorities, err := pki.WatchAuthorities(c.options.Logger, x509.NewCertPool, o.ProxyCAFile)
	if err != nil {
		return nil, fmt.Errorf("authorities of front proxies: %w", err)
	}
	c.run("authorities of front proxies", authorities.Run)
	p := o.Proxy
	p.Clients = authorities.Get
	return &p, nil
}

// OIDCOptions are the flags --oidc-* of kube-apiserver. Without IssuerURL there is no issuer.
type OIDCOptions struct {
	IssuerURL, ClientID, CAFile string
	// UsernameClaim is "sub" by default. Names from a claim other than "email" get the issuer's URL and "#" as prefix, unless
	// UsernamePrefix is set; "-" means no prefix.
	UsernameClaim, UsernamePrefix string
	GroupsClaim, GroupsPrefix     string
	// SigningAlgorithms are RS256 by default.
	SigningAlgorithms []string
	// RequiredClaims must have these values.
	RequiredClaims map[string]string
}

// configuration converts the options to a configuration file.
func (o OIDCOptions) configuration() (*oidc.Configuration, error) {
	j := oidc.JWT{Issuer: oidc.Issuer{URL: o.IssuerURL, Audiences: []string{o.ClientID}}}
	name := &j.ClaimMappings.Username
	name.Claim, name.Prefix = o.UsernameClaim, &o.UsernamePrefix
	if name.Claim == "" {
		name.Claim = "sub"
	}
	switch {
	case o.UsernamePrefix == "-":
		name.Prefix = new(string)
	case o.UsernamePrefix == "" && name.Claim != "email":
		name.Prefix = new(o.IssuerURL + "#")
	}
	if o.GroupsClaim != "" {
		j.ClaimMappings.Groups = oidc.PrefixedClaimOrExpression{Claim: o.GroupsClaim, Prefix: &o.GroupsPrefix}
	}
	if o.CAFile != "" {
		text, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("authority of the OIDC issuer: %w", err)
		}
		j.Issuer.CertificateAuthority = string(text)
	}
	for claim, value := range o.RequiredClaims {
		j.ClaimValidationRules = append(j.ClaimValidationRules, oidc.ClaimValidationRule{Claim: claim, RequiredValue: value})
	}
	return &oidc.Configuration{JWT: []oidc.JWT{j}}, nil
}

// issuers returns the authenticator for tokens of other issuers, or nil if there are none.
func (c *Cluster) issuers() (*oidc.Tokens, error) {
	o, own := c.options.Authentication, c.options.Serving.Tokens
	options := oidc.Options{File: o.ConfigFile, Disallowed: own.Issuers, Audiences: own.Audiences, ServerID: c.identity(), Logger: c.options.Logger}
	switch {
	case o.ConfigFile != "" && o.OIDC.IssuerURL != "":
		return nil, fmt.Errorf("authentication-config file and oidc-* flags are mutually exclusive")
	case o.OIDC.IssuerURL != "":
		var err error
		if options.Configuration, err = o.OIDC.configuration(); err != nil {
			return nil, err
		}
		if options.Algorithms = o.OIDC.SigningAlgorithms; options.Algorithms == nil {
			options.Algorithms = []string{"RS256"}
		}
	case o.ConfigFile == "":
		return nil, nil
	}
	t, err := oidc.New(options)
	if err != nil {
		return nil, err
	}
	c.metrics.Registry.MustRegister(t)
	c.run("issuers of tokens", t.Run)
	return t, nil
}

// identity returns the unique name of this API server in the cluster.
func (c *Cluster) identity() string {
	host, err := os.Hostname()
	if err != nil {
		host = c.address
	}
	return fmt.Sprintf("apiserver-%x", sha256.Sum256([]byte(host+" "+c.address)))[:len("apiserver-")+26]
}

// anonymous returns which requests need no credentials. Nil means all.
func (c *Cluster) anonymous(issuers *oidc.Tokens) func(*http.Request) bool {
	a := &oidc.Anonymous{Enabled: !c.options.Authentication.NoAnonymous}
	if o := &c.options; a.Enabled && o.AuthorizationConfig == "" && slices.Contains(o.Authorization, chain.AlwaysAllow) {
		o.Logger.Warn("AnonymousAuth is not allowed with the AlwaysAllow authorizer: requests without credentials are refused")
		a.Enabled = false
	}
	if issuers != nil && issuers.Anonymous() != nil {
		a = issuers.Anonymous()
	}
	if a.Enabled && len(a.Conditions) == 0 {
		return nil
	}
	return func(r *http.Request) bool {
		return a.Enabled && slices.ContainsFunc(a.Conditions, func(one oidc.AnonymousCondition) bool { return one.Path == r.URL.Path })
	}
}

// knownClients tells the HTTP/2 connection of each request whether its client is authenticated. Unauthenticated clients may have
// only a few requests at the same time, and their connection is closed after each answer.
type knownClients struct{ auth.Authenticator }

// Authenticate implements auth.Authenticator.
func (k knownClients) Authenticate(r *http.Request) (auth.User, error) {
	user, err := k.Authenticator.Authenticate(r)
	if err != nil || user.Name == auth.Anonymous {
		h2.Unauthenticated(r.Context())
	} else {
		h2.Authenticated(r.Context())
	}
	return user, err
}
