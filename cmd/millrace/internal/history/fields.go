package history

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// difference is one field that two versions of an object have differently.
type difference struct {
	path     string
	old, new any  // nil if there was none, or is none
	secret   bool // the values are not shown
}

// differences compares two versions of an object. Lists of objects are compared by what names their items. What a Secret
// holds is not shown, as in kubectl diff.
func differences(old, new map[string]any) (all []difference) {
	compare("", old, new, &all)
	if old["kind"] == "Secret" || new["kind"] == "Secret" {
		for i := range all {
			path := all[i].path
			all[i].secret = strings.HasPrefix(path, ".data") || strings.HasPrefix(path, ".stringData") || strings.HasPrefix(path, ".metadata.annotations")
		}
	}
	return all
}

func compare(path string, old, new any, all *[]difference) {
	switch old := old.(type) {
	case map[string]any:
		if new, ok := new.(map[string]any); ok {
			compareMaps(path, old, new, all)
			return
		}
	case []any:
		if new, ok := new.([]any); ok {
			compareLists(path, old, new, all)
			return
		}
	}
	if text(old) != text(new) {
		*all = append(*all, difference{path: path, old: old, new: new})
	}
}

func compareMaps(path string, old, new map[string]any, all *[]difference) {
	keys := maps.Clone(old)
	maps.Copy(keys, new)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		compare(path+field(key), old[key], new[key], all)
	}
}

// field returns how a key continues a path.
func field(key string) string {
	if strings.ContainsAny(key, "./[]\"") {
		return "[" + strconv.Quote(key) + "]"
	}
	return "." + key
}

func compareLists(path string, old, new []any, all *[]difference) {
	key := naming(old, new)
	if key == "" {
		for i := range max(len(old), len(new)) {
			compare(fmt.Sprintf("%s[%d]", path, i), at(old, i), at(new, i), all)
		}
		return
	}
	before, now := byName(old, key), byName(new, key)
	names := maps.Clone(before)
	maps.Copy(names, now)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		compare(path+"["+name+"]", before[name], now[name], all)
	}
}

func at(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return nil
}

// naming returns the field that names the items of two lists, if each item has another name.
func naming(lists ...[]any) string {
	for _, key := range []string{"name", "type", "uid", "key", "ip"} {
		unique := true
		for _, list := range lists {
			unique = unique && len(byName(list, key)) == len(list)
		}
		if unique {
			return key
		}
	}
	return ""
}

func byName(list []any, key string) map[string]any {
	named := make(map[string]any, len(list))
	for _, item := range list {
		if o, ok := item.(map[string]any); ok {
			if name, ok := o[key].(string); ok {
				named[name] = item
			}
		}
	}
	return named
}

// text writes a value on one line.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// String writes a difference on one line.
func (d difference) String() string {
	path := strings.TrimPrefix(d.path, ".")
	text := func(v any) string {
		if d.secret {
			return "***"
		}
		return text(v)
	}
	switch {
	case d.old == nil:
		return "+ " + path + ": " + text(d.new)
	case d.new == nil:
		return "- " + path + ": " + text(d.old)
	}
	return "~ " + path + ": " + text(d.old) + " → " + text(d.new)
}

// essential returns an object without what changes with each write.
func essential(o map[string]any) map[string]any {
	o = maps.Clone(o)
	if meta, ok := o["metadata"].(map[string]any); ok {
		meta = maps.Clone(meta)
		for _, key := range []string{"managedFields", "resourceVersion", "generation"} {
			delete(meta, key)
		}
		o["metadata"] = meta
	}
	return o
}
