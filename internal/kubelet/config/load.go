package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"
)

// File is a configuration.
type File = kubeletv1beta1.KubeletConfiguration

const kind = "KubeletConfiguration"

// Load reads a file, and the drop-ins in a directory. Either may be empty.
func Load(path, directory string) (*File, error) {
	var paths []string
	if path != "" {
		paths = append(paths, path)
	}
	more, err := dropIns(directory)
	if err != nil {
		return nil, err
	}
	file := &File{}
	for _, path := range append(paths, more...) {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if err := Parse(text, file); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return file, nil
}

// dropIns returns the files *.conf of a directory, in the order of their names.
func dropIns(directory string) ([]string, error) {
	if directory == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".conf") {
			paths = append(paths, filepath.Join(directory, e.Name()))
		}
	}
	return paths, nil
}

// Parse reads a configuration in YAML or JSON into a file that may have content.
func Parse(text []byte, into *File) error {
	into.Kind, into.APIVersion = "", ""
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		return err
	}
	if want := kubeletv1beta1.SchemeGroupVersion.String(); into.Kind != kind || into.APIVersion != want {
		return fmt.Errorf("no kind %q is registered for version %q: %s of %s is expected", into.Kind, into.APIVersion, kind, want)
	}
	return nil
}
