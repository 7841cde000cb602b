package manifests

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Configuration is what an AdmissionConfiguration says of a plugin.
type Configuration struct {
	metav1.TypeMeta `json:",inline"`
	// KubeConfigFile has the credentials with which webhooks are called. Policies have none.
	KubeConfigFile string `json:"kubeConfigFile"`
	// StaticManifestsDir is a directory of manifests.
	StaticManifestsDir string `json:"staticManifestsDir"`
}

const version = "apiserver.config.k8s.io/v1"

// plugin is one that can be configured: the kind of its configuration, and the resources of its manifests. Policies
// come before their bindings.
type plugin struct {
	kind      string
	resources []string
}

var plugins = map[string]plugin{
	"MutatingAdmissionWebhook":   {"WebhookAdmissionConfiguration", []string{"mutatingwebhookconfigurations"}},
	"ValidatingAdmissionWebhook": {"WebhookAdmissionConfiguration", []string{"validatingwebhookconfigurations"}},
	"MutatingAdmissionPolicy":    {"MutatingAdmissionPolicyConfiguration", []string{"mutatingadmissionpolicies", "mutatingadmissionpolicybindings"}},
	"ValidatingAdmissionPolicy":  {"ValidatingAdmissionPolicyConfiguration", []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings"}},
}

// Plugins are the names of the plugins that have manifests.
func Plugins() []string { return slices.Sorted(maps.Keys(plugins)) }

// Configure reads the configuration of a plugin, strictly. No text is an empty configuration.
func Configure(name string, text []byte) (Configuration, error) {
	var c Configuration
	if len(text) == 0 {
		return c, nil
	}
	if err := yaml.UnmarshalStrict(text, &c); err != nil {
		return c, err
	}
	webhooks := plugins[name].kind == "WebhookAdmissionConfiguration"
	switch old := webhooks && c.APIVersion == "apiserver.config.k8s.io/v1alpha1" && c.Kind == "WebhookAdmission"; {
	case old && c.StaticManifestsDir != "":
		return c, fmt.Errorf("staticManifestsDir: needs the version %s", version)
	case !old && (c.APIVersion != version || c.Kind != plugins[name].kind):
		return c, fmt.Errorf("no kind %q is registered for version %q: a %s of %s is needed", c.Kind, c.APIVersion, plugins[name].kind, version)
	case !webhooks && c.KubeConfigFile != "":
		return c, errors.New("kubeConfigFile: policies call nobody")
	}
	if c.KubeConfigFile != "" && !filepath.IsAbs(c.KubeConfigFile) {
		return c, fmt.Errorf("kubeConfigFile: %q must be an absolute path", c.KubeConfigFile)
	}
	return c, checkDirectory(c.StaticManifestsDir)
}

func checkDirectory(path string) error {
	if path == "" {
		return nil
	}
	if !filepath.IsAbs(path) {
		return fmt.Errorf("staticManifestsDir: %q must be an absolute path", path)
	}
	found, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("staticManifestsDir: %w", err)
	}
	if !found.IsDir() {
		return fmt.Errorf("staticManifestsDir: %q is not a directory", path)
	}
	return nil
}
