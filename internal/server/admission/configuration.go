package admission

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Configuration is how plugins are set up, by their names.
type Configuration map[string]json.RawMessage

// of decodes what is said of a plugin, if anything is.
func (c Configuration) of(plugin string, into any) error {
	text, ok := c[plugin]
	if !ok {
		return nil
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		return fmt.Errorf("configuration of plugin %q: %w", plugin, err)
	}
	return nil
}

// file is what --admission-control-config-file names: an AdmissionConfiguration.
type file struct {
	metav1.TypeMeta `json:",inline"`
	Plugins         []struct {
		Name          string          `json:"name"`
		Path          string          `json:"path"`
		Configuration json.RawMessage `json:"configuration"`
	} `json:"plugins"`
}

// ReadConfiguration reads an AdmissionConfiguration. Paths in it begin at its own directory.
func ReadConfiguration(path string) (Configuration, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("unable to read admission control configuration from %q [%w]", path, err)
	}
	var f file
	if err := yaml.UnmarshalStrict(text, &f); err != nil {
		return nil, fmt.Errorf("unable to read admission control configuration from %q [%w]", path, err)
	}
	switch f.APIVersion {
	case "apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1":
	default:
		return nil, fmt.Errorf("unable to read admission control configuration from %q [no kind %q is registered for version %q]", path, f.Kind, f.APIVersion)
	}
	if f.Kind != "AdmissionConfiguration" {
		return nil, fmt.Errorf("unexpected type: %s", f.Kind)
	}
	all := Configuration{}
	for _, p := range f.Plugins {
		switch {
		case len(p.Configuration) > 0:
			all[p.Name] = p.Configuration
		case p.Path != "":
			at := p.Path
			if !filepath.IsAbs(at) {
				at = filepath.Join(filepath.Dir(path), at)
			}
			text, err := os.ReadFile(at)
			if err != nil {
				return nil, fmt.Errorf("unable to read the configuration of plugin %q: %w", p.Name, err)
			}
			if all[p.Name], err = yaml.YAMLToJSON(text); err != nil {
				return nil, fmt.Errorf("configuration of plugin %q: %w", p.Name, err)
			}
		}
	}
	return all, nil
}
