package chain

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Configuration is an AuthorizationConfiguration of apiserver.config.k8s.io.
type Configuration struct {
	metav1.TypeMeta `json:",inline"`
	Authorizers     []Authorizer `json:"authorizers"`
}

// Authorizer is one that is asked.
type Authorizer struct {
	Type    string   `json:"type"`
	Name    string   `json:"name"`
	Webhook *Webhook `json:"webhook,omitempty"`
}

// Webhook says how a webhook is asked.
type Webhook struct {
	AuthorizedTTL                            metav1.Duration  `json:"authorizedTTL"`
	CacheAuthorizedRequests                  *bool            `json:"cacheAuthorizedRequests,omitempty"`
	UnauthorizedTTL                          metav1.Duration  `json:"unauthorizedTTL"`
	CacheUnauthorizedRequests                *bool            `json:"cacheUnauthorizedRequests,omitempty"`
	Timeout                                  metav1.Duration  `json:"timeout"`
	SubjectAccessReviewVersion               string           `json:"subjectAccessReviewVersion"`
	MatchConditionSubjectAccessReviewVersion string           `json:"matchConditionSubjectAccessReviewVersion"`
	FailurePolicy                            string           `json:"failurePolicy"`
	ConnectionInfo                           ConnectionInfo   `json:"connectionInfo"`
	MatchConditions                          []MatchCondition `json:"matchConditions"`
}

// ConnectionInfo says where a webhook is.
type ConnectionInfo struct {
	Type           string  `json:"type"`
	KubeConfigFile *string `json:"kubeConfigFile"`
}

// MatchCondition is an expression that must be true for a webhook to be asked.
type MatchCondition struct {
	Expression string `json:"expression"`
}

// Types of authorizers.
const (
	AlwaysAllow = "AlwaysAllow"
	AlwaysDeny  = "AlwaysDeny"
	ABAC        = "ABAC"
	Hook        = "Webhook"
	RBAC        = "RBAC"
	Node        = "Node"
)

// Types are all of them, sorted.
var Types = []string{ABAC, AlwaysAllow, AlwaysDeny, Node, RBAC, Hook}

const (
	group = "apiserver.config.k8s.io"
	kind  = "AuthorizationConfiguration"

	failNoOpinion, failDeny = "NoOpinion", "Deny"
	inFile, inCluster       = "KubeConfigFile", "InClusterConfig"

	defaultAuthorizedTTL, defaultUnauthorizedTTL = 5 * time.Minute, 30 * time.Second
)

var versions = []string{group + "/v1", group + "/v1beta1", group + "/v1alpha1"}

// Parse reads a configuration, strictly, and fills in defaults. It does not validate what the fields say.
func Parse(text []byte) (*Configuration, error) {
	c := &Configuration{}
	if len(text) == 0 {
		return c, nil
	}
	tree, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, fmt.Errorf("couldn't get version/kind; json parse error: %w", err)
	}
	strict, err := json.UnmarshalStrict(tree, c)
	switch {
	case err != nil:
		return nil, err
	case c.Kind == "":
		return nil, fmt.Errorf("Object 'Kind' is missing in '%s'", text)
	case c.APIVersion == "":
		return nil, fmt.Errorf("Object 'apiVersion' is missing in '%s'", text)
	case c.Kind != kind || !slices.Contains(versions, c.APIVersion):
		return nil, fmt.Errorf("no kind %q is registered for version %q: an %s of one of %v is needed", c.Kind, c.APIVersion, kind, versions)
	case len(strict) > 0:
		return nil, fmt.Errorf("strict decoding error: %w", errors.Join(strict...))
	}
	for i := range c.Authorizers {
		c.Authorizers[i].Webhook.setDefaults()
	}
	return c, nil
}

func (w *Webhook) setDefaults() {
	if w == nil {
		return
	}
	if w.AuthorizedTTL.Duration == 0 {
		w.AuthorizedTTL.Duration = defaultAuthorizedTTL
	}
	if w.UnauthorizedTTL.Duration == 0 {
		w.UnauthorizedTTL.Duration = defaultUnauthorizedTTL
	}
}

// Modes is the configuration that --authorization-mode says.
func Modes(modes []string) *Configuration {
	c := &Configuration{}
	for _, mode := range modes {
		a := Authorizer{Type: mode, Name: nameOf(mode)}
		if mode == Hook {
			a.Name = "default"
		}
		c.Authorizers = append(c.Authorizers, a)
	}
	return c
}

// nameOf is the name that an authorizer must have that is no webhook.
func nameOf(kind string) string { return strings.ToLower(kind) }

// keep is how long answers are kept: less than 0 is not at all.
func keep(ttl metav1.Duration, on *bool) time.Duration {
	if on != nil && !*on {
		return -1
	}
	return ttl.Duration
}
