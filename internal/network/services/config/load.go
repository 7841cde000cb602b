// Package config reads the configuration file of kube-proxy, a KubeProxyConfiguration of
// kubeproxy.config.k8s.io/v1alpha1.
//
// Parsing is strict: an unknown or repeated field is an error. Fields that have no effect here are accepted, and
// Ignored names those that a file has set. A field whose effect would be missed, such as another proxy mode, is an
// error.
package config

import (
	"os"

	"k8s.io/kube-proxy/config/v1alpha1"

	"github.com/millrace/millrace/internal/strictfile"
)

// File is a configuration, complete with defaults.
type File = v1alpha1.KubeProxyConfiguration

var format = strictfile.New(v1alpha1.SchemeGroupVersion, v1alpha1.AddToScheme)

// Default returns the configuration without a file.
func Default() *File {
	file := &File{}
	setDefaults(file)
	return file
}

// Load reads a file.
func Load(path string) (*File, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(data)
}

// Parse parses a configuration in YAML or JSON and sets defaults.
func Parse(data []byte) (*File, error) {
	file, err := strictfile.Parse[File](format, "KubeProxyConfiguration", data)
	if err != nil {
		return nil, err
	}
	setDefaults(file)
	return file, nil
}
