// Command topologygen writes down the library's schema of the built-in types, twice: as a whole, in a form that is read
// in milliseconds; and, as text, how it wants lists, maps and structs to be owned where that is not what it is for
// most: lists as a whole, maps and structs by their parts.
package main

import (
	"encoding/gob"
	"errors"
	"fmt"
	"log"
	"os"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/schema"

	"github.com/millrace/millrace/internal/server/ownership/internal/published"
)

// beta are the types of versions that are served if they are turned on.
var beta = regexp.MustCompile(`^io\.k8s\.api\.(resource\.v1beta[12]|(admissionregistration|certificates|storagemigration)\.v1beta1)\.`)

func main() {
	types, err := published.Types()
	if err != nil {
		log.Fatal(err)
	}
	if err := writeTypes("types.gob", types); err != nil {
		log.Fatal(err)
	}
	var out strings.Builder
	for _, t := range types {
		write(&out, t)
	}
	if err := os.WriteFile("topology.txt", []byte(out.String()), 0o644); err != nil {
		log.Fatal(err)
	}
}

func writeTypes(path string, types []schema.TypeDef) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	gob.Register(map[any]any{}) // the default of structs
	gob.Register(map[string]any{})
	return errors.Join(gob.NewEncoder(file).Encode(types), file.Close())
}

func write(out *strings.Builder, t schema.TypeDef) {
	stable := strings.HasPrefix(t.Name, "io.k8s.apimachinery.") || strings.HasSuffix(version(t.Name), "v1") || strings.HasSuffix(version(t.Name), "v2") || beta.MatchString(t.Name)
	if t.Map == nil || t.Scalar != nil || !stable {
		return
	}
	var lines []string
	for _, f := range t.Map.Fields {
		if line := field(f.Type); line != "" {
			lines = append(lines, "\t"+f.Name+" "+line)
		}
	}
	slices.Sort(lines)
	atomic := t.Map.ElementRelationship == schema.Atomic
	if !atomic && len(lines) == 0 {
		return
	}
	fmt.Fprint(out, t.Name)
	if atomic {
		fmt.Fprint(out, " atomic")
	}
	fmt.Fprintln(out)
	for _, l := range lines {
		fmt.Fprintln(out, l)
	}
}

func version(name string) string {
	parts := strings.Split(name, ".")
	return parts[max(0, len(parts)-2)]
}

func field(r schema.TypeRef) string {
	switch {
	case r.ElementRelationship == nil:
	case *r.ElementRelationship == schema.Atomic:
		return "atomic"
	default:
		return "granular"
	}
	switch l, m := r.Inlined.List, r.Inlined.Map; {
	case r.NamedType != nil:
	case l != nil && l.ElementRelationship == schema.Associative && len(l.Keys) > 0:
		return "keys=" + strings.Join(l.Keys, ",")
	case l != nil && l.ElementRelationship == schema.Associative:
		return "set"
	case m != nil && m.ElementRelationship == schema.Atomic:
		return "atomic"
	}
	return ""
}
