package ownership

import (
	"bytes"
	_ "embed"
	"encoding/gob"
	"fmt"
	"sync"

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
	var parser typed.Parser
	if err := gob.NewDecoder(bytes.NewReader(encodedTypes)).Decode(&parser.Schema.Types); err != nil {
		return nil, fmt.Errorf("read the schema of the built-in types: %w", err)
	}
	return managedfields.NewSchemeTypeConverter(scheme.Scheme, &parser), nil
}
