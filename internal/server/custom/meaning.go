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

// lookOf identifies a version's names, how objects are converted, and the schemas of this version and of those that
// objects are stored in. It is empty if the schemas' digests are not known.
func lookOf(d *v1.CustomResourceDefinition, v *v1.CustomResourceDefinitionVersion, schemas []digest) (string, error) {
	if len(schemas) != len(d.Spec.Versions) {
		return "", nil
	}
	h := sha256.New()
	if err := writeNames(h, d, v); err != nil {
		return "", err
	}
	for i := range d.Spec.Versions {
		if other := &d.Spec.Versions[i]; bearsUpon(d, other, v) {
			fmt.Fprintf(h, "%q %t ", other.Name, other.Storage)
			h.Write(schemas[i][:])
		}
	}
	return string(h.Sum(nil)), nil
}

// sameMeaning tells whether the objects of a version are shown in the same way by two definitions, which are read with
// their schemas. Descriptions and validations do not bear upon it.
func sameMeaning(before, now func() (*v1.CustomResourceDefinition, error), version string) bool {
	a, err := meaningOf(before, version)
	if err != nil {
		return false
	}
	b, err := meaningOf(now, version)
	return err == nil && a == b
}

// meaningOf is a digest of all that bears upon how the objects of a version are shown: what lookOf has, but of the
// schemas only what they drop and fill in.
func meaningOf(read func() (*v1.CustomResourceDefinition, error), version string) (string, error) {
	d, err := read()
	if err != nil {
		return "", err
	}
	at := slices.IndexFunc(d.Spec.Versions, func(v v1.CustomResourceDefinitionVersion) bool { return v.Name == version })
	if at < 0 {
		return "", fmt.Errorf("there is no version %q", version)
	}
	v := &d.Spec.Versions[at]
	h := sha256.New()
	if err := writeNames(h, d, v); err != nil {
		return "", err
	}
	for i := range d.Spec.Versions {
		other := &d.Spec.Versions[i]
		if !bearsUpon(d, other, v) {
			continue
		}
		fmt.Fprintf(h, "%q %t ", other.Name, other.Storage)
		if other.Schema != nil {
			writeShape(h, other.Schema.OpenAPIV3Schema)
		}
	}
	return string(h.Sum(nil)), nil
}

// bearsUpon tells whether one version's schema bears upon how the objects of another are shown: objects may be stored
// in it.
func bearsUpon(d *v1.CustomResourceDefinition, one, another *v1.CustomResourceDefinitionVersion) bool {
	return one.Name == another.Name || one.Storage || slices.Contains(d.Status.StoredVersions, one.Name)
}

// writeNames writes what is no schema and bears upon how the objects of a version are shown.
func writeNames(w io.Writer, d *v1.CustomResourceDefinition, v *v1.CustomResourceDefinitionVersion) error {
	names := d.Status.AcceptedNames
	conversion, err := json.Marshal(d.Spec.Conversion)
	if err != nil {
		return fmt.Errorf("encode how objects are converted: %w", err)
	}
	fmt.Fprintf(w, "%q %q %q %t %t %s\n", v.Name, names.Kind, names.ListKind, v.Served, d.Spec.PreserveUnknownFields, conversion)
	return nil
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
