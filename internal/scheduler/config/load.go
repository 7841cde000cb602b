package config

import (
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// File is a configuration, complete with defaults.
type File = configv1.KubeSchedulerConfiguration

var codecs = func() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	if err := configv1.AddToScheme(scheme); err != nil {
		panic("config: " + err.Error())
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict)
}()

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
	object, kind, err := codecs.UniversalDecoder(configv1.SchemeGroupVersion).Decode(data, nil, nil)
	if err != nil {
		return nil, err
	}
	file, ok := object.(*File)
	if !ok {
		return nil, fmt.Errorf("couldn't decode as KubeSchedulerConfiguration, got %s: ", kind)
	}
	file.SetGroupVersionKind(*kind)
	setDefaults(file)
	if err := validate(file); err != nil {
		return nil, err
	}
	return file, nil
}
