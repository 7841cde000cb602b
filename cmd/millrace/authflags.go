package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/server/auth/webhook"
)

// authFlags say who is believed and who decides, under kube-apiserver's names.
type authFlags struct {
	anonymous      bool
	authentication millrace.AuthenticationOptions
	authorization  webhook.AuthorizerOptions
}

func (f *authFlags) add(fl *pflag.FlagSet) {
	t, p, a := &f.authentication.TokenWebhook, &f.authentication.Proxy, &f.authorization
	fl.BoolVar(&f.anonymous, "anonymous-auth", true, "serve requests without credentials, as system:anonymous")
	fl.StringVar(&t.ConfigFile, "authentication-token-webhook-config-file", "", "kubeconfig of a webhook that knows the holders of tokens")
	fl.StringVar(&t.Version, "authentication-token-webhook-version", "v1beta1", "version of the TokenReviews: v1 or v1beta1")
	fl.DurationVar(&t.Keep, "authentication-token-webhook-cache-ttl", 2*time.Minute, "how long its answers are kept")
	fl.StringVar(&f.authentication.ProxyCAFile, "requestheader-client-ca-file", "", "authorities of front proxies, who say in headers for whom they ask")
	fl.StringSliceVar(&p.Names, "requestheader-allowed-names", nil, "common names that the certificates of front proxies may have (default: all)")
	fl.StringSliceVar(&p.UserHeaders, "requestheader-username-headers", []string{"x-remote-user"}, "headers with the name of the user")
	fl.StringSliceVar(&p.UIDHeaders, "requestheader-uid-headers", nil, "headers with the uid of the user")
	fl.StringSliceVar(&p.GroupHeaders, "requestheader-group-headers", []string{"x-remote-group"}, "headers with the groups of the user")
	fl.StringSliceVar(&p.ExtraPrefixes, "requestheader-extra-headers-prefix", []string{"x-remote-extra-"}, "what the names of headers with more about the user begin with")
	fl.StringVar(&a.ConfigFile, "authorization-webhook-config-file", "", "kubeconfig of a webhook that decides what is allowed, in the mode Webhook")
	fl.StringVar(&a.Version, "authorization-webhook-version", "v1beta1", "version of the SubjectAccessReviews: v1 or v1beta1")
	fl.DurationVar(&a.KeepAllowed, "authorization-webhook-cache-authorized-ttl", 5*time.Minute, "how long it is kept that something is allowed")
	fl.DurationVar(&a.KeepRefused, "authorization-webhook-cache-unauthorized-ttl", 30*time.Second, "how long it is kept that something is not allowed")
}

// apply sets the options that the flags are for. A time of 0 keeps nothing.
func (f *authFlags) apply(o *millrace.Options) {
	for _, d := range []*time.Duration{&f.authentication.TokenWebhook.Keep, &f.authorization.KeepAllowed, &f.authorization.KeepRefused} {
		if *d == 0 {
			*d = -1
		}
	}
	o.Authentication, o.AuthorizationWebhook = f.authentication, f.authorization
	o.Authentication.NoAnonymous = !f.anonymous
}

// files are those that the flags name.
func (f *authFlags) files() map[string]string {
	return map[string]string{"authentication-token-webhook-config-file": f.authentication.TokenWebhook.ConfigFile,
		"requestheader-client-ca-file": f.authentication.ProxyCAFile, "authorization-webhook-config-file": f.authorization.ConfigFile}
}
