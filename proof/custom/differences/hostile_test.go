package differences_test

import (
	"fmt"
	"net/http"
	"strings"
)

// told is a story that is written down: what is sent does not depend on what is answered.
type told struct {
	name  string
	steps []step
}

// asName asks for no more than the metadata of what is answered.
const asName = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"

func post(definition node) step {
	return step{Method: http.MethodPost, Path: definitions, Body: []byte(text(definition))}
}

func await(name, until string) step {
	return step{Method: http.MethodGet, Path: definitions + "/" + name, Until: until}
}

func gone(name string) step { return step{Method: http.MethodDelete, Path: definitions + "/" + name} }

// mergeInto is a merge patch of a definition.
func mergeInto(path string, change node) step {
	return step{Method: http.MethodPatch, Path: path, Type: mergePatch, Body: []byte(text(change))}
}

// named returns a plain definition.
func named(group, plural, singular, kind string, short ...any) node {
	names := node{"plural": plural, "singular": singular, "kind": kind, "listKind": kind + "List"}
	if len(short) > 0 {
		names["shortNames"] = short
	}
	return node{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": node{"name": plural + "." + group}, "spec": node{
		"group": group, "scope": "Namespaced", "names": names, "versions": []any{node{"name": "v1", "served": true, "storage": true,
			"schema": node{"openAPIV3Schema": node{"type": "object", "properties": node{"spec": node{"type": "object", "properties": node{"a": node{"type": "string"}}}}}}}}}}
}

// withSpec returns a plain definition with a schema of the spec.
func withSpec(group string, spec node) node {
	out := named(group, "tabs", "tab", "Tab")
	schemaIn(out["spec"].(node)["versions"].([]any)[0].(node))["properties"].(node)["spec"] = spec
	return out
}

func hostile() []told {
	return append([]told{inConflict(), approvals(), ending(), immutable(), oversized(), oddDefinitions()}, conversions()...)
}

// inConflict tells of definitions that want each other's names.
func inConflict() told {
	const group = "conflict.example.com"
	first := named(group, "tabs", "tab", "Tab", "tb", "t")
	s := []step{post(first), await("tabs."+group, isEstablished)}
	for _, other := range []node{
		named(group, "others", "tab", "Other"), named(group, "tab", "other", "Other"), named(group, "tb", "other", "Other"), named(group, "others", "tb", "Other"), named(group, "others", "other", "Tab"),
		named(group, "others", "other", "TabList"), named(group, "others", "other", "Other", "t"), named(group, "others", "other", "Other", "t", "x", "tb"), named(group, "others", "other", "Other", "tabs"), named(group, "others", "tab", "Tab", "tb"),
	} {
		name := other["metadata"].(node)["name"].(string)
		s = append(s, post(other), await(name, isEstablished), step{Method: http.MethodGet, Path: "/apis/" + group + "/v1"}, gone(name), await(name, "NotFound"))
	}
	late := named(group, "lates", "late", "Tab", "t")
	renamed := mergeInto(definitions+"/tabs."+group, node{"spec": node{"names": node{"shortNames": []any{"q"}}}})
	return told{"names in conflict", append(s, post(late), await("lates."+group, isEstablished), renamed, await("lates."+group, `"acceptedNames":\{[^}]*"shortNames":\["t"\]`),
		gone("tabs."+group), await("lates."+group, "InitialNamesAccepted"), gone("lates."+group), await("lates."+group, "NotFound"))}
}

// approvals tells of definitions in a group of Kubernetes' own.
func approvals() told {
	const group, path = "odd.k8s.io", definitions + "/tabs.odd.k8s.io"
	s := []step{post(named(group, "tabs", "tab", "Tab"))}
	for i, value := range []string{"https://github.com/kubernetes/kubernetes/pull/1", "unapproved, just trying", "nonsense", ""} {
		d := named(group, "tabs", "tab", "Tab")
		d["metadata"].(node)["annotations"] = node{"api-approved.kubernetes.io": value}
		s = append(s, post(d))
		if i < 2 {
			s = append(s, await("tabs."+group, "KubernetesAPIApprovalPolicyConformant.*InitialNames|InitialNames.*KubernetesAPIApprovalPolicyConformant"))
		}
		if i == 1 {
			for _, other := range []any{"https://github.com/kubernetes/kubernetes/pull/2", "nonsense", nil} {
				s = append(s, mergeInto(path, node{"metadata": node{"annotations": node{"api-approved.kubernetes.io": other}}}))
			}
			s = append(s, await("tabs."+group, "ApprovedAnnotation"))
		}
		s = append(s, gone("tabs."+group), await("tabs."+group, "NotFound"))
	}
	return told{"approvals", s}
}

// ending tells of a definition whose objects outlive it for a while.
func ending() told {
	const group = "ending.example.com"
	path := "/apis/" + group + "/v1/namespaces/default/tabs"
	object := func(name string, finalizers ...any) []byte {
		return []byte(text(node{"apiVersion": group + "/v1", "kind": "Tab", "metadata": node{"name": name, "finalizers": finalizers}, "spec": node{"a": "x"}}))
	}
	return told{"the end of a definition", []step{
		post(named(group, "tabs", "tab", "Tab")), await("tabs."+group, isEstablished), {Method: "POST", Path: path, Body: object("a", "example.com/hold")}, {Method: "POST", Path: path, Body: object("b")},
		gone("tabs." + group), await("tabs."+group, "InstanceDeletionInProgress"), {Method: "POST", Path: path, Body: object("c")}, {Method: "GET", Path: path + "/a"}, gone("tabs." + group),
		mergeInto(definitions+"/tabs."+group, node{"metadata": node{"labels": node{"a": "b"}}}), mergeInto(definitions+"/tabs."+group, node{"metadata": node{"finalizers": []any{"customresourcecleanup.apiextensions.k8s.io", "example.com/more"}}}),
		mergeInto(path+"/a", node{"metadata": node{"labels": node{"a": "b"}}}), mergeInto(path+"/a", node{"metadata": node{"finalizers": nil}}), await("tabs."+group, "NotFound"),
		{Method: "GET", Path: path + "/a"}, {Method: "GET", Path: "/apis/" + group}, {Method: "GET", Path: "/apis/" + group + "/v1"},
	}}
}

// immutable tells of changes of an established definition.
func immutable() told {
	const group = "fixed.example.com"
	name := "tabs." + group
	path := definitions + "/" + name
	v1 := named(group, "tabs", "tab", "Tab")["spec"].(node)["versions"].([]any)[0].(node)
	v2 := clone(v1)
	v2["name"] = "v2"
	as := func(v node, served, storage bool) node {
		v = clone(v)
		v["served"], v["storage"] = served, storage
		return v
	}
	versions := func(all ...any) step { return mergeInto(path, node{"spec": node{"versions": all}}) }
	s := []step{post(named(group, "tabs", "tab", "Tab")), await(name, isEstablished)}
	for _, spec := range []node{{"scope": "Cluster"}, {"group": "other.example.com"}, {"names": node{"plural": "others"}}, {"names": node{"kind": nil}}, {"preserveUnknownFields": true}, {"conversion": nil}, {"versions": nil}} {
		s = append(s, mergeInto(path, node{"spec": spec}))
	}
	s = append(s, versions(as(v2, true, true)), versions(as(v1, true, false), as(v2, true, true)), await(name, `"storedVersions":\["v1","v2"\]`), versions(as(v2, true, true)), versions(as(v1, false, false), as(v2, true, true)),
		mergeInto(path+"/status", node{"status": node{"storedVersions": []any{}}}), mergeInto(path+"/status", node{"status": node{"storedVersions": []any{"v9"}}}), mergeInto(path+"/status", node{"status": node{"storedVersions": []any{"v2"}}}))
	return told{"what is fixed", s}
}

// oversized tells of what is too large, too wide or too deep.
func oversized() told {
	const group, path = "large.example.com", "/apis/large.example.com/v1/namespaces/default/tabs"
	wide := node{}
	for i := range 10_000 {
		wide[fmt.Sprint("p", i)] = node{"type": "string"}
	}
	deep := func(levels int) node {
		s := node{"type": "string"}
		for range levels {
			s = node{"type": "object", "properties": node{"a": s}}
		}
		return s
	}
	object := func(name, spec string) []byte {
		return fmt.Appendf(nil, `{"apiVersion":"large.example.com/v1","kind":"Tab","metadata":{"name":%q},"spec":%s}`, name, spec)
	}
	nested := func(levels int) string {
		return strings.Repeat(`{"a":`, levels) + "1" + strings.Repeat("}", levels)
	}
	describe := func(bytes int) node {
		return node{"type": "object", "description": strings.Repeat("x", bytes)}
	}
	quiet := func(s step) step { s.Accept = asName; return s }
	open := node{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	dry := func(spec node) step {
		s := quiet(post(withSpec(group, spec)))
		s.Path += "?dryRun=All"
		return s
	}
	var s []step
	for _, size := range []int{1_000_000, 1_400_000, 1_560_000, 1_600_000, 3_000_000, 3_200_000} {
		s = append(s, quiet(post(withSpec(group, describe(size)))), await("tabs."+group, isEstablished+"|NotFound"), step{Method: "DELETE", Path: definitions + "/tabs." + group, Accept: asName}, quiet(await("tabs."+group, "NotFound")))
	}
	s = append(s, dry(node{"type": "object", "properties": wide}), dry(deep(50)), dry(deep(200)), dry(deep(900)), dry(deep(4000)),
		dry(node{"type": "object", "properties": node{"a": node{"type": "string", "enum": []any{strings.Repeat("x", 100_000)}, "default": "y"}}}),
		dry(node{"type": "object", "x-kubernetes-validations": []any{node{"rule": "true" + strings.Repeat(" && true", 20_000)}}}), dry(node{"type": "object", "x-kubernetes-validations": []any{node{"rule": strings.Repeat("(", 300) + "true" + strings.Repeat(")", 300)}}}),
		post(withSpec(group, open)), await("tabs."+group, isEstablished))
	for i, spec := range []string{nested(10), nested(300), nested(11_000), `{"a":"` + strings.Repeat("x", 1_400_000) + `"}`, `{"a":"` + strings.Repeat("x", 1_600_000) + `"}`, `{"a":"` + strings.Repeat("x", 3_000_000) + `"}`, `{"a":"` + strings.Repeat("x", 3_200_000) + `"}`} {
		name := fmt.Sprint("o", i)
		s = append(s, quiet(step{Method: "POST", Path: path, Body: object(name, spec)}), quiet(step{Method: "GET", Path: path + "/" + name}))
	}
	many := func(n int) []byte {
		return []byte("[" + strings.TrimSuffix(strings.Repeat(`{"op":"test","path":"/kind","value":"Tab"},`, n), ",") + "]")
	}
	for _, n := range []int{10_000, 10_001} {
		s = append(s, quiet(step{Method: "PATCH", Path: path + "/o0", Type: jsonPatch, Body: many(n)}))
	}
	s = append(s, quiet(step{Method: "PATCH", Path: path + "/o0", Type: mergePatch, Body: []byte(`{"spec":` + nested(11_000) + `}`)}), quiet(step{Method: "PATCH", Path: path + "/o0", Type: applyPatch, Body: object("o0", nested(300))}),
		quiet(step{Method: "PATCH", Path: path + "/o0", Type: mergePatch, Body: []byte(`{"spec":{"b":"` + strings.Repeat("x", 1_600_000) + `"}}`)}),
		quiet(step{Method: "PATCH", Path: path + "/o0", Type: mergePatch, Body: []byte(`{"metadata":{"annotations":{"b":"` + strings.Repeat("x", 300_000) + `"}}}`)}), gone("tabs."+group), await("tabs."+group, "NotFound"))
	return told{"what is too large", s}
}

// oddDefinitions tells of every oddity in every kind of schema.
func oddDefinitions() told {
	var s []step
	for _, kind := range []string{`{"type":"string"}`, `{"type":"object","properties":{"a":{"type":"string"}}}`,
		`{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}`, `{"x-kubernetes-int-or-string":true}`} {
		for _, odd := range oddities("odd") {
			part := decoded([]byte(kind)).(node)
			for name, value := range odd {
				part[name] = value
			}
			one := post(withSpec("odd.example.com", node{"type": "object", "properties": node{"p": part}}))
			one.Path += "?dryRun=All"
			s = append(s, one)
		}
	}
	return told{"odd definitions", s}
}
