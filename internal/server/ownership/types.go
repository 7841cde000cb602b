package ownership

import (
	"bytes"
	_ "embed"
	"encoding/gob"
	"errors"
	"fmt"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

//go:embed types.gob
var encodedTypes []byte

// types is the library's schema of the built-in kinds.
var types = sync.OnceValues(readTypes)

func readTypes() (managedfields.TypeConverter, error) {
	gob.Register(map[any]any{}) // the default of structs
	gob.Register(map[string]any{})
	var parser typed.Parser
	if err := gob.NewDecoder(bytes.NewReader(encodedTypes)).Decode(&parser.Schema.Types); err != nil {
		return nil, fmt.Errorf("read the schema of the built-in types: %w", err)
	}
	names := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(names), apiextensionsv1.AddToScheme(names)); err != nil {
		return nil, err
	}
	return managedfields.NewSchemeTypeConverter(names, &parser), nil
}
