package serving

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/server/auth/chain"
	"github.com/millrace/millrace/internal/server/auth/oidc"
)

// authFlags configure authentication and authorization webhooks, under kube-apiserver's names.
type authFlags struct {
	anonymous      bool
	required       []string // claims
	flags          *pflag.FlagSet
	authentication millrace.AuthenticationOptions
	authorization  millrace.AuthorizationWebhookOptions
	config, policy string
}

func (f *authFlags) add(fl *pflag.FlagSet) {
	f.flags = fl
	f.addIssuer(fl)
	t, p, a := &f.authentication.TokenWebhook, &f.authentication.Proxy, &f.authorization
	fl.BoolVar(&f.anonymous, "anonymous-auth", true, "serve requests without credentials as system:anonymous")
	fl.StringVar(&t.ConfigFile, "authentication-token-webhook-config-file", "", "kubeconfig of a webhook that authenticates tokens")
	fl.StringVar(&t.Version, "authentication-token-webhook-version", "v1beta1", "version of the TokenReviews: v1 or v1beta1")
	fl.DurationVar(&t.Keep, "authentication-token-webhook-cache-ttl", 2*time.Minute, "how long its answers are kept")
	fl.StringVar(&f.authentication.ProxyCAFile, "requestheader-client-ca-file", "", "authorities of front proxies, who say in headers for whom they ask")
	fl.StringSliceVar(&p.Names, "requestheader-allowed-names", nil, "common names that the certificates of front proxies may have (default: all)")
	fl.StringSliceVar(&p.UserHeaders, "requestheader-username-headers", []string{"x-remote-user"}, "headers with the name of the user")
	fl.StringSliceVar(&p.UIDHeaders, "requestheader-uid-headers", nil, "headers with the uid of the user")
	fl.StringSliceVar(&p.GroupHeaders, "requestheader-group-headers", []string{"x-remote-group"}, "headers with the groups of the user")
	fl.StringSliceVar(&p.ExtraPrefixes, "requestheader-extra-headers-prefix", []string{"x-remote-extra-"}, "what the names of headers with more about the user begin with")
	fl.StringVar(&f.config, "authorization-config", "", "who decides what is allowed: an AuthorizationConfiguration of apiserver.config.k8s.io, which is followed")
	fl.StringVar(&f.policy, "authorization-policy-file", "", "policies, one a line in JSON, in the mode ABAC")
	fl.StringVar(&a.ConfigFile, "authorization-webhook-config-file", "", "kubeconfig of a webhook that decides what is allowed, in the mode Webhook")
	fl.StringVar(&a.Version, "authorization-webhook-version", "v1beta1", "version of the SubjectAccessReviews: v1 or v1beta1")
	fl.DurationVar(&a.KeepAllowed, "authorization-webhook-cache-authorized-ttl", 5*time.Minute, "how long the webhook's positive answers are cached")
	fl.DurationVar(&a.KeepRefused, "authorization-webhook-cache-unauthorized-ttl", 30*time.Second, "how long the webhook's negative answers are cached")
}

// issuerFlags is the common prefix of the flags for an OpenID issuer.
const issuerFlags = "oidc-"

func (f *authFlags) addIssuer(fl *pflag.FlagSet) {
	o := &f.authentication.OIDC
	fl.StringVar(&f.authentication.ConfigFile, "authentication-config", "", "AuthenticationConfiguration of apiserver.config.k8s.io with the trusted issuers; it is reloaded when it changes")
	fl.StringVar(&o.IssuerURL, "oidc-issuer-url", "", "URL of a trusted OpenID issuer; https only")
	fl.StringVar(&o.ClientID, "oidc-client-id", "", "required audience of the issuer's tokens")
	fl.StringVar(&o.CAFile, "oidc-ca-file", "", "CA certificate of the issuer (default: those of this machine)")
	fl.StringVar(&o.UsernameClaim, "oidc-username-claim", "sub", "claim with the user's name")
	fl.StringVar(&o.UsernamePrefix, "oidc-username-prefix", "", `prefix of user names (default: the issuer's URL and "#", unless the claim is email); "-" means none`)
	fl.StringVar(&o.GroupsClaim, "oidc-groups-claim", "", "claim with the user's groups: a string or a list of strings")
	fl.StringVar(&o.GroupsPrefix, "oidc-groups-prefix", "", "prefix of group names")
	fl.StringSliceVar(&o.SigningAlgorithms, "oidc-signing-algs", []string{"RS256"}, "allowed signing algorithms of tokens")
	fl.StringArrayVar(&f.required, "oidc-required-claim", nil, "key=value of a claim that tokens must have; may be repeated")
}

// given reports whether the command line has a flag whose name begins with prefix. Without a command line it has none.
func (f *authFlags) given(prefix string) bool {
	found := false
	if f.flags != nil {
		f.flags.Visit(func(one *pflag.Flag) { found = found || strings.HasPrefix(one.Name, prefix) })
	}
	return found
}

// check reports flags that do not fit together.
func (f *authFlags) check() error {
	if (f.given("authorization-mode") || f.given("authorization-webhook-")) && f.config != "" {
		return errors.New("--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* flags are defined")
	}
	o := &f.authentication.OIDC
	switch {
	case !f.given(issuerFlags):
	case f.authentication.ConfigFile != "":
		return errors.New("authentication-config file and oidc-* flags are mutually exclusive")
	case o.IssuerURL == "" || o.ClientID == "":
		return errors.New("oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set")
	}
	for _, pair := range f.required {
		claim, value, ok := strings.Cut(pair, "=")
		if !ok {
			return fmt.Errorf("--oidc-required-claim: malformed pair, expect string=string: %q", pair)
		}
		if o.RequiredClaims == nil {
			o.RequiredClaims = map[string]string{}
		}
		o.RequiredClaims[strings.TrimSpace(claim)] = strings.TrimSpace(value)
	}
	return f.checkAnonymous()
}

// CheckModes makes sure that each mode has what it needs, and that nothing is there for one that is not on.
func (f *authFlags) CheckModes(modes []string) error {
	for i, mode := range modes {
		switch {
		case !slices.Contains(chain.Types, mode):
			return fmt.Errorf("authorization-mode %q is not a valid mode", mode)
		case mode == chain.ABAC && f.policy == "":
			return errors.New("authorization-mode ABAC's authorization policy file not passed")
		case mode == chain.Hook && f.authorization.ConfigFile == "":
			return errors.New("authorization-mode Webhook's authorization config file not passed")
		case slices.Contains(modes[:i], mode):
			return fmt.Errorf("authorization-mode %q has mode specified more than once", modes)
		}
	}
	switch {
	case f.config != "":
	case f.policy != "" && !slices.Contains(modes, chain.ABAC):
		return errors.New("cannot specify --authorization-policy-file without mode ABAC")
	case f.authorization.ConfigFile != "" && !slices.Contains(modes, chain.Hook):
		return errors.New("cannot specify --authorization-webhook-config-file without mode Webhook")
	}
	return nil
}

// checkAnonymous makes sure that only one place says who needs no credentials.
func (f *authFlags) checkAnonymous() error {
	path := f.authentication.ConfigFile
	if path == "" || !f.flags.Changed("anonymous-auth") {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("--authentication-config: %w", err)
	}
	if c, err := oidc.Parse(text); err == nil && c.Anonymous != nil {
		return field.Forbidden(field.NewPath("anonymous"), "--anonymous-auth flag cannot be set when anonymous field is configured in authentication configuration file")
	}
	return nil
}

// apply sets the options. A cache time of 0 disables caching.
func (f *authFlags) apply(o *millrace.Options) {
	for _, d := range []*time.Duration{&f.authentication.TokenWebhook.Keep, &f.authorization.KeepAllowed, &f.authorization.KeepRefused} {
		if *d == 0 {
			*d = -1
		}
	}
	o.Authentication, o.AuthorizationWebhook = f.authentication, f.authorization
	o.AuthorizationConfig, o.AuthorizationPolicyFile = f.config, f.policy
	o.Authentication.NoAnonymous = !f.anonymous
}

// files returns the files that the flags name.
func (f *authFlags) files() map[string]string {
	return map[string]string{"authentication-token-webhook-config-file": f.authentication.TokenWebhook.ConfigFile,
		"authentication-config": f.authentication.ConfigFile, "oidc-ca-file": f.authentication.OIDC.CAFile,
		"requestheader-client-ca-file": f.authentication.ProxyCAFile, "authorization-webhook-config-file": f.authorization.ConfigFile,
		"authorization-config": f.config, "authorization-policy-file": f.policy}
}
