package apiserver

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/cmd/millrace/internal/flags"
)

// accountTokenFlags are the flags of service account tokens, under kube-apiserver's names.
type accountTokenFlags struct {
	o      millrace.TokenOptions
	extend bool
}

func (f *accountTokenFlags) add(fl *pflag.FlagSet) {
	fl.StringArrayVar(&f.o.Issuers, "service-account-issuer", nil,
		"issuer of service account tokens (default: https://kubernetes.default.svc.cluster.local); given again, names other issuers whose tokens are accepted")
	fl.StringVar(&f.o.SigningKeyFile, "service-account-signing-key-file", "", "key that signs service account tokens, RSA or ECDSA (default: sa.key in the directory of keys)")
	fl.StringArrayVar(&f.o.KeyFiles, "service-account-key-file", nil, "public keys that verify service account tokens, besides that of the signing key; may be given again")
	fl.StringVar(&f.o.KeysURI, "service-account-jwks-uri", "", "where clients find those keys (default: this server's /openid/v1/jwks)")
	fl.DurationVar(&f.o.MaxLife, "service-account-max-token-expiration", 0, "how long service account tokens are valid at most; 0 sets no bound")
	fl.BoolVar(&f.extend, "service-account-extend-token-expiration", true, "let the tokens of pods be valid for a year, though they are renewed each hour")
	fl.StringSliceVar(&f.o.Audiences, "api-audiences", nil, "what tokens for this API server are meant for (default: the issuers)")
}

func (f *accountTokenFlags) options() millrace.TokenOptions {
	o := f.o
	o.NoExtension = !f.extend
	return o
}

const shortestMaxLife, longestMaxLife = time.Hour, 1 << 32 * time.Second

func (f *accountTokenFlags) check() error {
	for i, issuer := range f.o.Issuers {
		switch {
		case issuer == "":
			return errors.New("--service-account-issuer should not be an empty string")
		case slices.Contains(f.o.Issuers[:i], issuer):
			return fmt.Errorf("--service-account-issuer %q is already specified", issuer)
		}
		if _, err := url.Parse(issuer); err != nil && strings.Contains(issuer, ":") {
			return fmt.Errorf("--service-account-issuer %q contained a ':' but was not a valid URL: %w", issuer, err)
		}
	}
	if u, err := url.Parse(f.o.KeysURI); f.o.KeysURI != "" && (err != nil || u.Scheme != "https") {
		return fmt.Errorf("--service-account-jwks-uri %q is not an https URL", f.o.KeysURI)
	}
	if d := f.o.MaxLife; d != 0 && (d < shortestMaxLife || d > longestMaxLife) {
		return errors.New("the service-account-max-token-expiration must be set to a minimum of 1 hour and maximum of 2^32 seconds")
	}
	named := map[string]string{"service-account-signing-key-file": f.o.SigningKeyFile}
	for i, path := range f.o.KeyFiles {
		named[fmt.Sprintf("service-account-key-file (number %d)", i+1)] = path
	}
	return flags.Files(named)
}
