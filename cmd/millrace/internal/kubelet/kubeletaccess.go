package kubelet

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/millrace/millrace/internal/kubelet/config"
	"github.com/millrace/millrace/internal/kubelet/server"
)

// policyFlags say how the kubelet's server treats clients that are not the API server.
type policyFlags struct {
	anonymous, tokens             bool
	mode                          string
	keepUser, keepYes, keepRefuse time.Duration
}

func (p *policyFlags) add(fl *pflag.FlagSet) {
	fl.BoolVar(&p.anonymous, "anonymous-auth", false, "take requests without credentials as those of system:anonymous")
	fl.BoolVar(&p.tokens, "authentication-token-webhook", true, "ask the API server whose a bearer token is")
	fl.DurationVar(&p.keepUser, "authentication-token-webhook-cache-ttl", 2*time.Minute, "how long an answer about a token is used")
	fl.StringVar(&p.mode, "authorization-mode", "Webhook", "Webhook asks the API server what a client may do; AlwaysAllow lets every client do everything")
	fl.DurationVar(&p.keepYes, "authorization-webhook-cache-authorized-ttl", 5*time.Minute, "how long a permission is used")
	fl.DurationVar(&p.keepRefuse, "authorization-webhook-cache-unauthorized-ttl", 30*time.Second, "how long a refusal is used")
}

func (p *policyFlags) take(t taking, file *config.File) {
	itself := func(b bool) bool { return b }
	takePointer(t, "anonymous-auth", &p.anonymous, file.Authentication.Anonymous.Enabled, itself)
	takePointer(t, "authentication-token-webhook", &p.tokens, file.Authentication.Webhook.Enabled, itself)
	take(t, "authentication-token-webhook-cache-ttl", &p.keepUser, file.Authentication.Webhook.CacheTTL.Duration)
	take(t, "authorization-mode", &p.mode, string(file.Authorization.Mode))
	take(t, "authorization-webhook-cache-authorized-ttl", &p.keepYes, file.Authorization.Webhook.CacheAuthorizedTTL.Duration)
	take(t, "authorization-webhook-cache-unauthorized-ttl", &p.keepRefuse, file.Authorization.Webhook.CacheUnauthorizedTTL.Duration)
}

func (p *policyFlags) policy() (server.Policy, error) {
	if p.mode != "Webhook" && p.mode != "AlwaysAllow" {
		return server.Policy{}, fmt.Errorf("--authorization-mode: unknown authorization mode %q", p.mode)
	}
	return server.Policy{
		Anonymous: p.anonymous, NoTokens: !p.tokens, AllowAll: p.mode == "AlwaysAllow", KeepUser: p.keepUser, KeepAllowed: p.keepYes, KeepRefused: p.keepRefuse,
	}, nil
}
