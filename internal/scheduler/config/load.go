package config

import (
	"os"

	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/millrace/millrace/internal/strictfile"
)

// File is a configuration, complete with defaults.
type File = configv1.KubeSchedulerConfiguration

var format = strictfile.New(configv1.SchemeGroupVersion, configv1.AddToScheme)

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

// Parse parses a configuration in YAML or JSON, sets defaults and validates it.
func Parse(data []byte) (*File, error) {
	file, err := strictfile.Parse[File](format, "KubeSchedulerConfiguration", data)
	if err != nil {
		return nil, err
	}
	setDefaults(file)
	if err := validate(file); err != nil {
		return nil, err
	}
	return file, nil
}
