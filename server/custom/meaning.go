package custom

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// meaningOf is a digest of all that bears upon how the objects of a version are shown: its names, how objects are converted, and
// what the schemas of this version and of those that objects are stored in drop and fill in. Descriptions and validations
// do not bear upon it.
func meaningOf(d *v1.CustomResourceDefinition, v *v1.CustomResourceDefinitionVersion) (string, error) {
	h := sha256.New()
	names := d.Status.AcceptedNames
	conversion, err := json.Marshal(d.Spec.Conversion)
	if err != nil {
		return "", fmt.Errorf("encode how objects are converted: %w", err)
	}
	fmt.Fprintf(h, "%q %q %q %t %t %s\n", v.Name, names.Kind, names.ListKind, v.Served, d.Spec.PreserveUnknownFields, conversion)
	for _, other := range d.Spec.Versions {
		if other.Name != v.Name && !other.Storage && !slices.Contains(d.Status.StoredVersions, other.Name) {
			continue
		}
		fmt.Fprintf(h, "%q %t ", other.Name, other.Storage)
		if other.Schema != nil {
			writeShape(h, other.Schema.OpenAPIV3Schema)
		}
	}
	return string(h.Sum(nil)), nil
}

// writeShape writes what a schema drops and fills in.
func writeShape(w io.Writer, s *v1.JSONSchemaProps) {
	if s == nil {
		io.WriteString(w, "-")
		return
	}
	fmt.Fprintf(w, "{%s %t %t %t %t", s.Type, s.Nullable, s.XEmbeddedResource, s.XIntOrString, s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields)
	if s.Default != nil {
		fmt.Fprintf(w, " =%s", s.Default.Raw)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		fmt.Fprintf(w, " %q", name)
		writeShape(w, &p)
	}
	if s.Items != nil {
		io.WriteString(w, " []")
		writeShape(w, s.Items.Schema)
	}
	if s.AdditionalProperties != nil {
		fmt.Fprintf(w, " *%t", s.AdditionalProperties.Allows)
		writeShape(w, s.AdditionalProperties.Schema)
	}
	io.WriteString(w, "}")
}
