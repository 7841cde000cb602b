// Package strictfile reads the configuration files of Kubernetes' programs, which are API objects of a version of their
// own. An unknown or repeated field is an error.
package strictfile

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// Format is one version of a group of configurations.
type Format struct {
	version schema.GroupVersion
	decoder runtime.Decoder
}

// New returns the format of a version, whose types add registers.
func New(version schema.GroupVersion, add func(*runtime.Scheme) error) Format {
	scheme := runtime.NewScheme()
	if err := add(scheme); err != nil {
		panic(fmt.Sprintf("types of %s: %v", version, err)) // only types that contradict each other can fail
	}
	return Format{version, serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(version)}
}

// Parse reads a configuration in YAML or JSON. The kind is what errors call the type.
func Parse[T any, P interface {
	*T
	runtime.Object
}](f Format, kind string, data []byte) (P, error) {
	object, found, err := f.decoder.Decode(data, nil, nil)
	if err != nil {
		return nil, err
	}
	file, ok := object.(P)
	if !ok {
		return nil, fmt.Errorf("couldn't decode as %s, got %s", kind, found)
	}
	file.GetObjectKind().SetGroupVersionKind(*found)
	return file, nil
}
