package millrace

import "time"

// AuthenticationOptions configure who is authenticated, besides certificates and tokens of the cluster itself.
type AuthenticationOptions struct {
	// ConfigFile is an AuthenticationConfiguration of apiserver.config.k8s.io: the trusted issuers of tokens, and which
	// requests may be anonymous. It is reloaded when it changes. By default no other issuer is trusted.
	ConfigFile string
	// OIDC configures a single issuer, instead of ConfigFile.
	OIDC OIDCOptions
	// NoAnonymous refuses requests without credentials, which by default are those of system:anonymous. The setting in
	// ConfigFile has precedence.
	NoAnonymous bool
	// TokenWebhook is asked for tokens that no other authenticator knows.
	TokenWebhook TokenWebhookOptions
	// ProxyCAFile has the CA certificates of front proxies. Without it nobody is one. Proxy has the names of their
	// certificates and headers.
	ProxyCAFile string
	Proxy       FrontProxyOptions
}

// OIDCOptions are the flags --oidc-* of kube-apiserver. Without IssuerURL there is no issuer.
type OIDCOptions struct {
	// IssuerURL is the issuer, ClientID the audience that its tokens must have, and CAFile the CA of its server: those
	// of this machine by default.
	IssuerURL, ClientID, CAFile string
	// UsernameClaim is "sub" by default. Names from a claim other than "email" get the issuer's URL and "#" as prefix,
	// unless UsernamePrefix is set; "-" means no prefix.
	UsernameClaim, UsernamePrefix string
	// GroupsClaim has the groups, whose names begin with GroupsPrefix then. By default tokens say nothing about groups.
	GroupsClaim, GroupsPrefix string
	// SigningAlgorithms are RS256 by default.
	SigningAlgorithms []string
	// RequiredClaims must have these values.
	RequiredClaims map[string]string
}

// TokenWebhookOptions say whom to ask who has a token.
type TokenWebhookOptions struct {
	// ConfigFile is a kubeconfig of the webhook. Without it nobody is asked.
	ConfigFile string
	// Version is of authentication.k8s.io: v1 or v1beta1 (the default, as in kube-apiserver).
	Version string
	// Keep is how long an answer is kept: two minutes by default, less than 0 not at all.
	Keep time.Duration
}

// FrontProxyOptions describe proxies that have authenticated their clients, and name them in headers. A proxy proves
// with a client certificate that it is one; the headers of anybody else mean nothing.
type FrontProxyOptions struct {
	// Names are the common names that the proxies' certificates may have; none allows all.
	Names []string
	// UserHeaders, UIDHeaders and GroupHeaders name the headers. Of the first two the first that is there counts, of
	// groups all. ExtraPrefixes begin the names of headers with more about the user.
	UserHeaders, UIDHeaders, GroupHeaders, ExtraPrefixes []string
}

// AuthorizationWebhookOptions say whom to ask what is allowed.
type AuthorizationWebhookOptions struct {
	// ConfigFile is a kubeconfig of the webhook.
	ConfigFile string
	// Version is of authorization.k8s.io: v1 or v1beta1 (the default, as in kube-apiserver).
	Version string
	// KeepAllowed and KeepRefused are how long answers are kept: 5 minutes and 30 seconds by default, less than 0 not
	// at all.
	KeepAllowed, KeepRefused time.Duration
}
