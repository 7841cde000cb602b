package access

import (
	"fmt"
	"os"

	"github.com/millrace/millrace/internal/server/auth/oidc"
)

// OIDC are the flags --oidc-* of kube-apiserver. Without IssuerURL there is no issuer.
type OIDC struct {
	IssuerURL, ClientID, CAFile string
	// UsernameClaim is "sub" by default. Names from a claim other than "email" get the issuer's URL and "#" as prefix,
	// unless UsernamePrefix is set; "-" means no prefix.
	UsernameClaim, UsernamePrefix string
	GroupsClaim, GroupsPrefix     string
	// SigningAlgorithms are RS256 by default.
	SigningAlgorithms []string
	// RequiredClaims must have these values.
	RequiredClaims map[string]string
}

// configuration converts the options to a configuration file.
func (o OIDC) configuration() (*oidc.Configuration, error) {
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
