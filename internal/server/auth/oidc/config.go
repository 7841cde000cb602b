package oidc

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Configuration is an AuthenticationConfiguration of apiserver.config.k8s.io.
type Configuration struct {
	metav1.TypeMeta `json:",inline"`
	JWT             []JWT      `json:"jwt"`
	Anonymous       *Anonymous `json:"anonymous,omitempty"`
}

// Anonymous says which requests need no credentials: those for the paths of the conditions, or all if there are none.
type Anonymous struct {
	Enabled    bool                 `json:"enabled"`
	Conditions []AnonymousCondition `json:"conditions,omitempty"`
}

// AnonymousCondition is a path.
type AnonymousCondition struct {
	Path string `json:"path"`
}

// JWT says how the tokens of one issuer are believed.
type JWT struct {
	Issuer               Issuer                `json:"issuer"`
	ClaimValidationRules []ClaimValidationRule `json:"claimValidationRules,omitempty"`
	ClaimMappings        ClaimMappings         `json:"claimMappings"`
	UserValidationRules  []UserValidationRule  `json:"userValidationRules,omitempty"`
}

// Issuer says who signs, for whom, and where the keys are.
type Issuer struct {
	URL                  string   `json:"url"`
	DiscoveryURL         string   `json:"discoveryURL,omitempty"`
	CertificateAuthority string   `json:"certificateAuthority,omitempty"`
	Audiences            []string `json:"audiences"`
	AudienceMatchPolicy  string   `json:"audienceMatchPolicy,omitempty"`
	EgressSelectorType   string   `json:"egressSelectorType,omitempty"`
}

// ClaimValidationRule wants a claim to have a value, or an expression about the claims to be true.
type ClaimValidationRule struct {
	Claim         string `json:"claim,omitempty"`
	RequiredValue string `json:"requiredValue,omitempty"`
	Expression    string `json:"expression,omitempty"`
	Message       string `json:"message,omitempty"`
}

// ClaimMappings say what the claims make of a user.
type ClaimMappings struct {
	Username PrefixedClaimOrExpression `json:"username"`
	Groups   PrefixedClaimOrExpression `json:"groups,omitempty"`
	UID      ClaimOrExpression         `json:"uid,omitempty"`
	Extra    []ExtraMapping            `json:"extra,omitempty"`
}

// PrefixedClaimOrExpression is a claim behind a prefix, or an expression.
type PrefixedClaimOrExpression struct {
	Claim      string  `json:"claim,omitempty"`
	Prefix     *string `json:"prefix,omitempty"`
	Expression string  `json:"expression,omitempty"`
}

// ClaimOrExpression is a claim or an expression.
type ClaimOrExpression struct {
	Claim      string `json:"claim,omitempty"`
	Expression string `json:"expression,omitempty"`
}

// ExtraMapping is an expression whose value is kept under a key.
type ExtraMapping struct {
	Key             string `json:"key"`
	ValueExpression string `json:"valueExpression"`
}

// UserValidationRule wants an expression about the user to be true.
type UserValidationRule struct {
	Expression string `json:"expression"`
	Message    string `json:"message,omitempty"`
}

const (
	configurationGroup = "apiserver.config.k8s.io"
	configurationKind  = "AuthenticationConfiguration"
)

// configurationVersions are those that kube-apiserver reads. What they say is the same.
var configurationVersions = []string{configurationGroup + "/v1", configurationGroup + "/v1beta1", configurationGroup + "/v1alpha1"}

// Parse reads a configuration, strictly. It does not validate what the fields say.
func Parse(text []byte) (*Configuration, error) {
	if len(text) == 0 {
		return nil, errors.New("empty config data")
	}
	tree, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, fmt.Errorf("couldn't get version/kind; json parse error: %w", err)
	}
	c := &Configuration{}
	strict, err := json.UnmarshalStrict(tree, c)
	switch {
	case err != nil:
		return nil, err
	case c.Kind == "":
		return nil, fmt.Errorf("Object 'Kind' is missing in '%s'", text)
	case c.APIVersion == "":
		return nil, fmt.Errorf("Object 'apiVersion' is missing in '%s'", text)
	case c.Kind != configurationKind || !slices.Contains(configurationVersions, c.APIVersion):
		return nil, fmt.Errorf("no kind %q is registered for version %q: an %s of one of %v is needed", c.Kind, c.APIVersion, configurationKind, configurationVersions)
	case len(strict) > 0:
		return nil, fmt.Errorf("strict decoding error: %w", errors.Join(strict...))
	}
	return c, nil
}
