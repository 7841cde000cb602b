package differences_test

import (
	"slices"
	"strconv"
	"strings"
)

// edit is one change within a tree of JSON.
type edit struct {
	path   []string
	value  any
	remove bool
}

// edit returns a random change of a value of a schema, which is nil where nothing is known.
func (d dice) edit(s node, v any, path ...string) edit {
	path = slices.Clone(path)
	switch v := v.(type) {
	case map[string]any:
		if len(path) > 0 && d.chance(10) {
			break
		}
		properties, _ := s["properties"].(node)
		known := append(keys(properties), keys(v)...)
		known = slices.DeleteFunc(known, func(name string) bool {
			return len(path) == 0 && (name == "metadata" || name == "apiVersion" || name == "kind")
		})
		if len(known) == 0 || d.chance(6) {
			known = []string{"unknown", "ka", "a"}
		}
		name := pick(d, known...)
		inner, _ := properties[name].(node)
		if inner == nil {
			inner, _ = s["additionalProperties"].(node)
		}
		before, has := v[name]
		switch {
		case has && isContainer(before) && d.chance(80):
			return d.edit(inner, before, append(path, name)...)
		case has && d.chance(20):
			return edit{path: append(path, name), remove: true}
		}
		return edit{path: append(path, name), value: d.valueOrNot(inner)}
	case []any:
		inner, _ := s["items"].(node)
		if len(v) > 0 && d.chance(60) {
			i := d.IntN(len(v))
			at := append(path, strconv.Itoa(i))
			if d.chance(20) {
				return edit{path: at, remove: true}
			}
			return d.edit(inner, v[i], at...)
		}
		if d.chance(50) {
			return edit{path: append(path, "-"), value: d.valueOrNot(inner)}
		}
	}
	return edit{path: path, value: d.valueOrNot(s)}
}

func isContainer(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

func (d dice) valueOrNot(s node) any {
	if s == nil || d.chance(20) {
		return d.wrong(s)
	}
	return d.value(s, 60)
}

// in returns a copy of a tree with the change.
func (e edit) in(v any) any { return e.at(copyOf(v), e.path) }

func (e edit) at(v any, path []string) any {
	if len(path) == 0 {
		return e.value
	}
	last := len(path) == 1
	switch v := v.(type) {
	case map[string]any:
		if last && e.remove {
			delete(v, path[0])
			return v
		}
		v[path[0]] = e.at(v[path[0]], path[1:])
		return v
	case []any:
		if path[0] == "-" {
			return append(v, e.value)
		}
		i, _ := strconv.Atoi(path[0])
		if last && e.remove {
			return slices.Delete(v, i, i+1)
		}
		v[i] = e.at(v[i], path[1:])
		return v
	}
	return e.at(map[string]any{}, path)
}

// jsonPatch returns the change as a JSON patch.
func (e edit) jsonPatch(d dice) []any {
	pointer := ""
	for _, step := range e.path {
		pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(step)
	}
	op := node{"op": "add", "path": pointer, "value": e.value}
	if e.remove {
		op = node{"op": "remove", "path": pointer}
	} else if d.chance(20) {
		op["op"] = "replace"
	}
	if d.chance(10) {
		return []any{op, pick(d, node{"op": "test", "path": pointer, "value": "x"}, node{"op": "copy", "from": pointer, "path": "/spec/a"}, node{"op": "move", "from": pointer, "path": "/spec/b"},
			node{"op": "remove", "path": "/none/at/all"}, node{"op": "strange", "path": "/spec"})}
	}
	return []any{op}
}

// mergePatch returns the change of a tree as a merge patch, in which lists are whole.
func (e edit) mergePatch(tree any) any {
	before, after := tree, e.in(tree)
	patch := node{}
	into := patch
	for i, step := range e.path {
		a, isMap := after.(map[string]any)
		b, wasMap := before.(map[string]any)
		value := any(nil)
		if isMap {
			value = a[step]
		}
		if _, inner := value.(map[string]any); !isMap || !wasMap || !inner || i == len(e.path)-1 {
			into[step] = copyOf(value)
			break
		}
		next := node{}
		into[step] = next
		into, after, before = next, value, b[step]
	}
	return patch
}
