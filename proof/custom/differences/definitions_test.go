package differences_test

import (
	"fmt"
	"strings"
)

// subject is a definition that is tried, with what its requests need to know.
type subject struct {
	group    string
	scope    string
	body     node // the definition
	versions []string
}

func (s *subject) name() string { return "tabs." + s.group }

// path is where objects are served.
func (s *subject) path(version, namespace string) string {
	if s.scope == "Cluster" {
		return fmt.Sprintf("/apis/%s/%s/tabs", s.group, version)
	}
	return fmt.Sprintf("/apis/%s/%s/namespaces/%s/tabs", s.group, version, namespace)
}

// all are the definition's versions.
func (s *subject) all() []any { return s.body["spec"].(node)["versions"].([]any) }

// schemaOf is the schema of a version; nil if it is of no sense.
func (s *subject) schemaOf(version string) node {
	for _, v := range s.all() {
		if v := v.(node); v["name"] == version {
			return schemaIn(v)
		}
	}
	return nil
}

func schemaIn(version node) node {
	outer, _ := version["schema"].(node)
	root, _ := outer["openAPIV3Schema"].(node)
	return root
}

// definition returns a random definition.
func (d dice) definition(group string) *subject {
	s := &subject{group: group, scope: pick(d, "Namespaced", "Namespaced", "Cluster")}
	root := d.root()
	var versions []any
	for i := range pick(d, 1, 1, 2, 2, 3) {
		name := "v1" // which is stored
		if i > 0 {
			name = []string{"", "v1beta1", "v2"}[i]
		}
		v := node{"name": name, "served": i == 0 || d.chance(85), "storage": i == 0}
		if v["served"] == true {
			s.versions = append(s.versions, name)
		}
		shape := root
		if i > 0 {
			shape = clone(root)
			for range d.IntN(3) {
				d.change(shape)
			}
		}
		v["schema"] = node{"openAPIV3Schema": shape}
		d.furnish(v, shape)
		versions = append(versions, v)
	}
	names := node{"plural": "tabs", "singular": "tab", "kind": "Tab", "listKind": "TabList"}
	if d.chance(30) {
		names["shortNames"], names["categories"] = []any{"tb"}, []any{"all", "mine"}
	}
	spec := node{"group": group, "scope": s.scope, "names": names, "versions": versions}
	if d.chance(20) {
		spec["conversion"] = node{"strategy": "None"}
	}
	s.body = node{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": node{"name": s.name()}, "spec": spec}
	return s
}

// root returns the schema of a whole object.
func (d dice) root() node {
	properties := node{"spec": d.objectSchema(3)}
	if d.chance(70) {
		status := d.objectSchema(1)
		status["properties"].(node)["replicas"] = node{"type": "integer"}
		properties["status"] = status
	}
	if d.chance(20) {
		properties["data"] = d.schema(1)
	}
	if d.chance(8) {
		properties["metadata"] = node{"type": "object", "properties": node{"name": node{"type": "string", "pattern": "^o", "maxLength": 5}}}
	}
	spec := properties["spec"].(node)
	if d.chance(50) {
		spec["properties"].(node)["replicas"] = node{"type": "integer", "default": 1}
	}
	if d.chance(25) {
		spec["x-kubernetes-validations"] = d.rules(spec)
	}
	root := node{"type": "object", "properties": properties}
	if d.chance(15) {
		root["required"] = []any{pick(d, "spec", "status", "data")}
	}
	if d.chance(8) {
		root["x-kubernetes-validations"] = []any{node{"rule": pick(d, "self.metadata.name != 'o3'", "has(self.spec)", "self.kind == 'Tab'", "!has(oldSelf.spec) || has(self.spec)", "self.metadata.labels.size() == 0")}}
	}
	if d.chance(5) {
		root["x-kubernetes-preserve-unknown-fields"] = true
	}
	return root
}

// furnish adds to a version what is beside its schema.
func (d dice) furnish(v, root node) {
	paths := leaves(root)
	if len(paths) == 0 {
		paths = []string{".metadata.name"}
	}
	if d.chance(75) {
		sub := node{}
		if d.chance(85) {
			sub["status"] = node{}
		}
		if d.chance(50) {
			scale := node{"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
			if d.chance(30) {
				scale["labelSelectorPath"] = pick(d, ".status.selector", ".spec.a", ".status.a")
			}
			sub["scale"] = scale
		}
		v["subresources"] = sub
	}
	if d.chance(45) {
		var columns []any
		for i := range 1 + d.IntN(3) {
			path := pick(d, append(paths, ".metadata.creationTimestamp", ".spec", ".spec.none", ".metadata.labels.a", ".spec.a[*].name", ".spec.b[0]", ".metadata.name")...)
			column := node{"name": fmt.Sprint("C", i), "type": pick(d, "string", "string", "integer", "number", "boolean", "date"), "jsonPath": path}
			if d.chance(20) {
				column["priority"], column["description"] = 1, "what it is"
			}
			if d.chance(10) {
				column["format"] = pick(d, "int32", "date-time", "strange")
			}
			columns = append(columns, column)
		}
		v["additionalPrinterColumns"] = columns
	}
	if d.chance(30) {
		v["selectableFields"] = []any{node{"jsonPath": pick(d, append(paths, ".spec.none", ".metadata.name", "spec.a", ".spec.a[0]")...)}}
	}
	if d.chance(8) {
		v["deprecated"] = true
		if d.chance(50) {
			v["deprecationWarning"] = "use another \"version\""
		}
	}
}

// leaves are the paths to scalars through plain names.
func leaves(root node) []string {
	var out []string
	properties, _ := root["properties"].(node)
	for _, name := range keys(properties) {
		inner, _ := properties[name].(node)
		if strings.ContainsAny(name, "./-_") || name == "metadata" || inner == nil {
			continue
		}
		if inner["type"] == "object" {
			for _, path := range leaves(inner) {
				out = append(out, "."+name+path)
			}
		} else if inner["type"] != "array" {
			out = append(out, "."+name)
		}
	}
	return out
}
