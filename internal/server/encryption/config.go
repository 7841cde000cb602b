package encryption

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// configuration is an EncryptionConfiguration of apiserver.config.k8s.io/v1.
type configuration struct {
	metav1.TypeMeta `json:",inline"`
	Resources       []resourceConfig `json:"resources"`
}

type resourceConfig struct {
	Resources []string         `json:"resources"`
	Providers []providerConfig `json:"providers"`
}

type providerConfig struct {
	AESGCM    *keysConfig `json:"aesgcm,omitempty"`
	AESCBC    *keysConfig `json:"aescbc,omitempty"`
	Secretbox *keysConfig `json:"secretbox,omitempty"`
	Identity  *struct{}   `json:"identity,omitempty"`
	KMS       *kmsConfig  `json:"kms,omitempty"`
}

type keysConfig struct {
	Keys []keyConfig `json:"keys"`
}

type keyConfig struct {
	Name   string `json:"name"`
	Secret string `json:"secret"`
}

type kmsConfig struct {
	APIVersion string           `json:"apiVersion"`
	Name       string           `json:"name"`
	CacheSize  *int32           `json:"cachesize,omitempty"`
	Endpoint   string           `json:"endpoint"`
	Timeout    *metav1.Duration `json:"timeout,omitempty"`
}

// parse decodes a configuration strictly.
func parse(text []byte) (*configuration, error) {
	c := &configuration{}
	if err := yaml.UnmarshalStrict(text, c); err != nil {
		return nil, err
	}
	if c.APIVersion != "apiserver.config.k8s.io/v1" || c.Kind != "EncryptionConfiguration" {
		return nil, fmt.Errorf("%s %s is not an EncryptionConfiguration of apiserver.config.k8s.io/v1", c.APIVersion, c.Kind)
	}
	if len(c.Resources) == 0 {
		return nil, errors.New("resources: at least one is required")
	}
	for i, r := range c.Resources {
		if err := r.check(); err != nil {
			return nil, fmt.Errorf("resources[%d].%w", i, err)
		}
	}
	return c, nil
}

func (r *resourceConfig) check() error {
	switch {
	case len(r.Resources) == 0:
		return errors.New("resources: at least one is required")
	case len(r.Providers) == 0:
		return errors.New("providers: at least one is required")
	}
	for i, name := range r.Resources {
		if err := checkResource(name); err != nil {
			return fmt.Errorf("resources[%d]: %w", i, err)
		}
		for _, other := range r.Resources[:i] {
			if other == name {
				return fmt.Errorf("resources[%d]: the same resource cannot be specified multiple times", i)
			}
			if a, b := schema.ParseGroupResource(name), schema.ParseGroupResource(other); covers(a, b) || covers(b, a) {
				return fmt.Errorf("resources[%d]: using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they will be masked", i)
			}
		}
	}
	return nil
}

func checkResource(name string) error {
	gr := schema.ParseGroupResource(name)
	switch {
	case name != strings.ToLower(name):
		return errors.New("resource name should not contain capital letters")
	case name == "*":
		return errors.New("use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources")
	case gr.Group == "events.k8s.io":
		return errors.New("'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the config file")
	case gr.Group == "extensions":
		return errors.New("'extensions' group has been removed and cannot be used for encryption")
	case gr.Group == "*" && gr.Resource != "*":
		return errors.New("encrypting the same resource across groups is not supported")
	case slices.Contains([]string{"apiserveripinfo", "serviceipallocations", "servicenodeportallocations"}, name):
		return errors.New("resources which do not have REST API/s cannot be encrypted")
	}
	return nil
}

// covers reports whether a resource of a configuration, which may be "*.GROUP" or "*.*", includes another.
func covers(wide, gr schema.GroupResource) bool {
	return (wide.Resource == "*" || wide.Resource == gr.Resource) && (wide.Group == "*" || wide.Group == gr.Group)
}

// keys decodes the secrets of keys; lengths are the allowed lengths.
func (k *keysConfig) keys(lengths ...int) (names []string, secrets [][]byte, err error) {
	if len(k.Keys) == 0 {
		return nil, nil, errors.New("keys: at least one is required")
	}
	for i, key := range k.Keys {
		if key.Name == "" {
			return nil, nil, fmt.Errorf("keys[%d].name is a mandatory field for a key", i)
		}
		secret, err := base64.StdEncoding.DecodeString(key.Secret)
		if err != nil {
			return nil, nil, fmt.Errorf("keys[%d].secret: secrets must be base64 encoded", i)
		}
		if !slices.Contains(lengths, len(secret)) {
			return nil, nil, fmt.Errorf("keys[%d].secret is not of the expected length, got %d, expected one of %v", i, len(secret), lengths)
		}
		names, secrets = append(names, key.Name), append(secrets, secret)
	}
	return names, secrets, nil
}

func (k *kmsConfig) check() error {
	switch {
	case k.APIVersion != "v2":
		return fmt.Errorf("apiVersion %q of a KMS provider is not supported, only v2 is", k.APIVersion)
	case k.Name == "":
		return errors.New("name is a mandatory field for a KMS provider")
	case strings.Contains(k.Name, ":"):
		return fmt.Errorf("invalid KMS provider name %s, must not contain ':'", k.Name)
	case !strings.HasPrefix(k.Endpoint, "unix://"):
		return fmt.Errorf("endpoint %q of a KMS provider is not supported, only unix:// is", k.Endpoint)
	case k.CacheSize != nil:
		return errors.New("cachesize is not supported in v2")
	case k.Timeout != nil && k.Timeout.Duration <= 0:
		return errors.New("timeout should be a positive value")
	}
	return nil
}

func (k *kmsConfig) timeout() time.Duration {
	if k.Timeout == nil {
		return 3 * time.Second
	}
	return k.Timeout.Duration
}
