// Package config reads the configuration file of kube-proxy, a KubeProxyConfiguration of
// kubeproxy.config.k8s.io/v1alpha1.
//
// Parsing is strict: an unknown or repeated field is an error. Fields that have no effect here are accepted, and
// Ignored names those that a file has set. A field whose effect would be missed, such as another proxy mode, is an
// error.
package config

import (
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/kube-proxy/config/v1alpha1"
)

// File is a configuration, complete with defaults.
type File = v1alpha1.KubeProxyConfiguration

var codecs = func() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
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

// Parse parses a configuration in YAML or JSON and sets defaults.
func Parse(data []byte) (*File, error) {
	object, kind, err := codecs.UniversalDecoder(v1alpha1.SchemeGroupVersion).Decode(data, nil, nil)
	if err != nil {
		return nil, err
	}
	file, ok := object.(*File)
	if !ok {
		return nil, fmt.Errorf("couldn't decode as KubeProxyConfiguration, got %s", kind)
	}
	file.SetGroupVersionKind(*kind)
	setDefaults(file)
	return file, nil
}
