package negotiate

import (
	"bytes"
	"encoding/json"

	"sigs.k8s.io/yaml"

	"github.com/millrace/millrace/internal/server/resource"
)

// Plain reports whether a response can be assembled from JSON forms.
func (f Format) Plain() bool {
	return f.Media == JSON && f.Shape == Object && !f.Pretty
}

// Finish converts JSON text to the format of the response.
func (f Format) Finish(b []byte) ([]byte, string, error) {
	switch {
	case f.Media == YAML:
		b, err := yaml.JSONToYAML(b)
		return b, YAMLType, err
	case f.Pretty:
		return append(indent(b), '\n'), resource.JSONType, nil
	}
	return append(b, '\n'), resource.JSONType, nil
}

func indent(b []byte) []byte {
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", "  "); err != nil {
		return b
	}
	return out.Bytes()
}
