package access

import (
	"crypto"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/assembly"
	"github.com/millrace/millrace/internal/server/actions"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/auth/bootstraptoken"
	"github.com/millrace/millrace/internal/server/auth/chain"
	"github.com/millrace/millrace/internal/server/auth/oidc"
	"github.com/millrace/millrace/internal/server/auth/webhook"
	"github.com/millrace/millrace/internal/server/h2"
	"github.com/millrace/millrace/internal/server/pki"
)

// openAuthentication makes what finds out who sends a request.
func (a *Access) openAuthentication(l *assembly.List) (err error) {
	if a.Issuer, err = a.issuer(); err != nil {
		return err
	}
	others, err := a.issuers(l)
	if err != nil {
		return err
	}
	if a.Tokens, err = a.tokens(others); err != nil {
		return err
	}
	proxy, err := a.frontProxy(l)
	if err != nil {
		return err
	}
	requests := &auth.Requests{Clients: a.Clients, Tokens: a.Tokens, Proxy: proxy, Anonymous: a.anonymous(others)}
	a.Authenticate = knownClients{auth.Trusted{Others: requests}}
	return nil
}

// issuer returns what makes service account tokens and authenticates them.
func (a *Access) issuer() (*actions.Issuer, error) {
	o := a.o.Tokens
	var keys []crypto.PublicKey
	for _, path := range o.KeyFiles {
		more, err := pki.ReadPublicKeys(path)
		if err != nil {
			return nil, fmt.Errorf("keys of service account tokens: %w", err)
		}
		keys = append(keys, more...)
	}
	return actions.NewIssuer(actions.IssuerOptions{
		Key: a.Signing, Keys: keys, Names: o.Issuers, Audiences: o.Audiences, MaxLife: o.MaxLife, NoExtension: o.NoExtension, KeysURI: o.KeysURI,
		Registry: a.storage.Registry, Now: time.Now,
	})
}

// issuers returns the authenticator for tokens of other issuers, or nil if there are none.
func (a *Access) issuers(l *assembly.List) (*oidc.Tokens, error) {
	options := oidc.Options{
		File: a.o.ConfigFile, Disallowed: a.o.Tokens.Issuers, Audiences: a.o.Tokens.Audiences, ServerID: a.address.Identity(), Logger: a.o.Logger,
	}
	switch {
	case a.o.ConfigFile != "" && a.o.OIDC.IssuerURL != "":
		return nil, fmt.Errorf("authentication-config file and oidc-* flags are mutually exclusive")
	case a.o.OIDC.IssuerURL != "":
		var err error
		if options.Configuration, err = a.o.OIDC.configuration(); err != nil {
			return nil, err
		}
		if options.Algorithms = a.o.OIDC.SigningAlgorithms; options.Algorithms == nil {
			options.Algorithms = []string{"RS256"}
		}
	case a.o.ConfigFile == "":
		return nil, nil
	}
	t, err := oidc.New(options)
	if err != nil {
		return nil, err
	}
	a.o.Metrics.MustRegister(t)
	l.Run("issuers of tokens", t.Run)
	return t, nil
}

// tokens returns the authenticators for tokens.
func (a *Access) tokens(others *oidc.Tokens) (auth.Sources, error) {
	forServer := func(t auth.Tokens) auth.Tokens { return auth.ForServer{Tokens: t, Audiences: a.o.Tokens.Audiences} }
	tokens := auth.Sources{
		a.Issuer, forServer(&actions.SecretTokens{Issuer: a.Issuer, Logger: a.o.Logger}), forServer(&bootstraptoken.Tokens{Registry: a.storage.Registry}),
	}
	if a.o.TokenFile != "" {
		file, err := auth.ReadTokenFile(a.o.TokenFile)
		if err != nil {
			return nil, err
		}
		tokens = slices.Insert(tokens, 0, forServer(file))
	}
	if others != nil {
		tokens = append(tokens, others)
	}
	if o := a.o.TokenWebhook; o.ConfigFile != "" {
		o.Audiences = a.o.Tokens.Audiences
		asked, err := webhook.NewTokens(o)
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, asked)
	}
	return tokens, nil
}

// anonymous returns which requests need no credentials. Nil means all.
func (a *Access) anonymous(issuers *oidc.Tokens) func(*http.Request) bool {
	set := &oidc.Anonymous{Enabled: !a.o.NoAnonymous}
	if set.Enabled && a.o.ModesFile == "" && slices.Contains(a.o.Modes, chain.AlwaysAllow) {
		a.o.Logger.Warn("AnonymousAuth is not allowed with the AlwaysAllow authorizer: requests without credentials are refused")
		set.Enabled = false
	}
	if issuers != nil && issuers.Anonymous() != nil {
		set = issuers.Anonymous()
	}
	if set.Enabled && len(set.Conditions) == 0 {
		return nil
	}
	return func(r *http.Request) bool {
		return set.Enabled && slices.ContainsFunc(set.Conditions, func(one oidc.AnonymousCondition) bool { return one.Path == r.URL.Path })
	}
}

// knownClients tells the HTTP/2 connection of each request whether its client is authenticated. Unauthenticated clients
// may have only a few requests at the same time, and their connection is closed after each answer.
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
