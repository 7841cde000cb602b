package credentialplugins

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	configv1 "k8s.io/kubelet/config/v1"
	credentialv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
	"sigs.k8s.io/yaml"
)

// readConfig reads a configuration, or those in a directory in the order of their names.
func readConfig(path string) ([]configv1.CredentialProvider, error) {
	var all []configv1.CredentialProvider
	files := 0
	err := filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != path:
			return filepath.SkipDir
		case d.IsDir() || file != path && !slices.Contains([]string{".json", ".yaml", ".yml"}, filepath.Ext(file)):
			return nil
		}
		files++
		some, err := readFile(file)
		all = append(all, some...)
		return err
	})
	if err == nil && files == 0 {
		err = fmt.Errorf("no configuration files found in %s", path)
	}
	return all, err
}

// configVersions are the versions of a configuration. They differ only in what older ones do not have.
var configVersions = []string{"kubelet.config.k8s.io/v1", "kubelet.config.k8s.io/v1beta1", "kubelet.config.k8s.io/v1alpha1"}

func readFile(path string) ([]configv1.CredentialProvider, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var config configv1.CredentialProviderConfig
	if err := yaml.UnmarshalStrict(text, &config); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if config.Kind != "CredentialProviderConfig" || !slices.Contains(configVersions, config.APIVersion) {
		return nil, fmt.Errorf("%s: no kind %q is registered for version %q", path, config.Kind, config.APIVersion)
	}
	return config.Providers, nil
}

// check returns what is wrong with a list of plugins.
func check(all []configv1.CredentialProvider) error {
	if len(all) == 0 {
		return errors.New("at least 1 item in plugins is required")
	}
	var problems []error
	names := map[string]bool{}
	for i := range all {
		p := &all[i]
		if names[p.Name] {
			problems = append(problems, fmt.Errorf("provider %q: the name must be unique", p.Name))
		}
		names[p.Name] = true
		for _, problem := range problemsOf(p) {
			problems = append(problems, fmt.Errorf("provider %q: %s", p.Name, problem))
		}
	}
	return errors.Join(problems...)
}

func problemsOf(p *configv1.CredentialProvider) (problems []string) {
	say := func(wrong bool, problem string) {
		if wrong {
			problems = append(problems, problem)
		}
	}
	say(p.Name == "", "name is required")
	say(p.Name == "." || p.Name == ".." || strings.ContainsAny(p.Name, "/ "), "name must be that of a file")
	say(len(p.MatchImages) == 0, "at least 1 item in matchImages is required")
	for _, pattern := range p.MatchImages {
		say(!valid(pattern), fmt.Sprintf("%q is no pattern for images", pattern))
	}
	say(p.DefaultCacheDuration == nil, "defaultCacheDuration is required")
	say(p.DefaultCacheDuration != nil && p.DefaultCacheDuration.Duration < 0, "defaultCacheDuration must be greater than or equal to 0")
	say(p.APIVersion != credentialv1.SchemeGroupVersion.String(), fmt.Sprintf("apiVersion must be %q", credentialv1.SchemeGroupVersion))
	t := p.TokenAttributes
	if t == nil {
		return problems
	}
	say(t.ServiceAccountTokenAudience == "", "tokenAttributes.serviceAccountTokenAudience is required")
	say(t.RequireServiceAccount == nil, "tokenAttributes.requireServiceAccount is required")
	say(t.CacheType != configv1.ServiceAccountServiceAccountTokenCacheType && t.CacheType != configv1.TokenServiceAccountTokenCacheType, "tokenAttributes.cacheType must be ServiceAccount or Token")
	say(len(t.RequiredServiceAccountAnnotationKeys) > 0 && t.RequireServiceAccount != nil && !*t.RequireServiceAccount,
		"tokenAttributes.requireServiceAccount must be true when requiredServiceAccountAnnotationKeys is specified")
	for _, key := range t.OptionalServiceAccountAnnotationKeys {
		say(slices.Contains(t.RequiredServiceAccountAnnotationKeys, key), fmt.Sprintf("the annotation %q cannot be both required and optional", key))
	}
	return problems
}

// programs finds the programs of plugins.
func programs(directory string, all []configv1.CredentialProvider) ([]*plugin, error) {
	var found []*plugin
	for i := range all {
		path, err := exec.LookPath(filepath.Join(directory, all[i].Name))
		if err != nil {
			return nil, fmt.Errorf("plugin binary of %q: %w", all[i].Name, err)
		}
		found = append(found, &plugin{CredentialProvider: all[i], path: path, kept: map[string]answer{}})
	}
	return found, nil
}
