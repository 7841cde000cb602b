package differences_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// state is what is there after a step: the value at each path of each object, by object and path; events; and who wrote
// what.
type state map[string]string

// unknown is a value that depends on chance, and is not compared.
const unknown = "~"

func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func (s state) matches(e *regexp.Regexp) bool {
	for _, key := range keys(s) {
		if e.MatchString(key + " = " + s[key]) {
			return true
		}
	}
	return false
}

// look takes down states of a scenario.
type look struct {
	*world
	*names
	scenario *scenario
}

func newLook(w *world, s *scenario, ns string) *look {
	return &look{world: w, names: &names{ns: ns, hashes: map[string]string{}, count: map[string]int{}}, scenario: s}
}

// take returns the state now.
func (l *look) take(answers state) state {
	out := maps.Clone(answers)
	_, kinds, writes := l.seen(l.ns)
	for _, w := range writes {
		out["write "+w] = "yes"
	}
	l.learn(l.list("replicasets", l.ns), l.list("controllerrevisions", l.ns))
	for _, resource := range kinds {
		at, known := places[resource]
		switch {
		case !known:
		case resource == "events":
			l.events(out)
		default:
			l.objects(out, resource, at.cluster)
		}
	}
	if slices.Contains(kinds, "persistentvolumeclaims") && !slices.Contains(kinds, "persistentvolumes") {
		l.objects(out, "persistentvolumes", true)
	}
	return newer(out)
}

// objects adds the objects of a resource.
func (l *look) objects(out state, resource string, cluster bool) {
	all := l.ordered(resource, cluster)
	count := map[string]int{}
	for _, o := range all {
		key := resource + "/" + l.text(nameOf(o.object))
		if count[key]++; count[key] > 1 {
			key += " " + strconv.Itoa(count[key])
		}
		flatten(out, key+" ", o.normal)
	}
}

// seenObject is an object, and what remains of it when it is compared.
type seenObject struct {
	object, normal node
	text           string
}

// ordered returns the scenario's objects of a resource in an order that does not depend on chance.
func (l *look) ordered(resource string, cluster bool) []seenObject {
	var all []seenObject
	for _, o := range l.list(resource, l.ns) {
		if cluster && !l.ours(o) {
			continue
		}
		one := seenObject{object: o, normal: l.object(resource, copied(o))}
		one.text = l.text(nameOf(o)) + jsonOf(one.normal)
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b seenObject) int { return strings.Compare(a.text, b.text) })
	return all
}

// ours tells whether an object of the cluster belongs to the scenario.
func (l *look) ours(o node) bool {
	name := nameOf(o)
	claim, _ := dig(o, "spec", "claimRef").(node)
	return name == l.ns || strings.HasPrefix(name, l.ns+"-") || claim["namespace"] == l.ns
}

// resolve returns the name of the object that prefix:number means.
func (l *look) resolve(resource, wanted string) (string, error) {
	prefix, number, _ := strings.Cut(wanted, ":")
	n, err := strconv.Atoi(number)
	if err != nil {
		return "", fmt.Errorf("%q has no number", wanted)
	}
	l.learn(l.list("replicasets", l.ns), l.list("controllerrevisions", l.ns))
	for _, o := range l.ordered(resource, false) {
		if !strings.HasPrefix(l.text(nameOf(o.object)), prefix) {
			continue
		}
		if n == 0 {
			return nameOf(o.object), nil
		}
		n--
	}
	return "", fmt.Errorf("there is no %s %s", resource, wanted)
}

// uid returns the UID of an object.
func (l *look) uid(resource, name string) string {
	for _, o := range l.list(resource, l.ns) {
		if nameOf(o) == name {
			uid, _ := dig(o, "metadata", "uid").(string)
			return uid
		}
	}
	l.Errorf("%s: there is no %s %s", l.scenario.name, resource, name)
	return ""
}

// retried are the reasons of normal events that come as often as something is tried.
var retried = regexp.MustCompile(`^(Failed|ExternalProvisioning|WaitFor|NoPods|Provisioning)`)

// events adds the events, and how often each came unless that depends on time.
func (l *look) events(out state) {
	for _, e := range l.list("events", l.ns) {
		source, _ := dig(e, "source", "component").(string)
		if source == "" {
			source, _ = e["reportingComponent"].(string)
		}
		if source == "kubelet" {
			continue
		}
		about, _ := e["involvedObject"].(node)
		kind, reason := e["type"].(string), e["reason"].(string)
		message, _ := e["message"].(string)
		key := fmt.Sprintf("event %s %s by %s about %v/%s: %s", kind, reason, source, about["kind"], l.text(fmt.Sprint(about["name"])), l.text(message))
		if kind == "Warning" || retried.MatchString(reason) {
			out[key] = "yes"
			continue
		}
		before, _ := strconv.Atoi(out[key])
		out[key] = strconv.Itoa(before + occurrences(e))
	}
}

// occurrences is how often an event came.
func occurrences(e node) int {
	if n, ok := dig(e, "series", "count").(float64); ok {
		return int(n)
	}
	if n, ok := e["count"].(float64); ok && n > 0 {
		return int(n)
	}
	return 1
}

// flatten adds the values of a tree by their paths.
func flatten(out state, path string, v any) {
	switch v := v.(type) {
	case node:
		if len(v) == 0 {
			out[path] = "{}"
		}
		for key, inner := range v {
			flatten(out, path+"."+key, inner)
		}
	case []any:
		if len(v) == 0 {
			out[path] = "[]"
		}
		for i, inner := range v {
			flatten(out, fmt.Sprintf("%s[%d]", path, i), inner)
		}
	default:
		out[path] = jsonOf(v)
	}
}

func dig(o any, path ...string) any {
	for _, name := range path {
		m, ok := o.(node)
		if !ok {
			return nil
		}
		o = m[name]
	}
	return o
}

func nameOf(o node) string {
	name, _ := dig(o, "metadata", "name").(string)
	return name
}

func copied(o node) (out node) {
	if err := json.Unmarshal([]byte(jsonOf(o)), &out); err != nil {
		panic(err) // it was decoded before
	}
	return out
}
