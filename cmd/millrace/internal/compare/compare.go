// Package compare compares objects field by field, and writes what differs as people call it.
package compare

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Difference is one field that two versions of an object have differently.
type Difference struct {
	Path     string
	Old, New any // nil if there was none, or is none

	secret bool // the values are not shown
}

// Differences compares two versions of an object. Lists of objects are compared by what names their items. What a Secret
// holds is not shown, as in kubectl diff.
func Differences(old, new map[string]any) (all []Difference) {
	compare("", old, new, &all)
	if old["kind"] == "Secret" || new["kind"] == "Secret" {
		for i := range all {
			path := all[i].Path
			all[i].secret = strings.HasPrefix(path, ".data") || strings.HasPrefix(path, ".stringData") || strings.HasPrefix(path, ".metadata.annotations")
		}
	}
	return all
}

func compare(path string, old, new any, all *[]Difference) {
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
	if Text(old) != Text(new) {
		*all = append(*all, Difference{Path: path, Old: old, New: new})
	}
}

func compareMaps(path string, old, new map[string]any, all *[]Difference) {
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

func compareLists(path string, old, new []any, all *[]Difference) {
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

// Text writes a value on one line.
func Text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// String writes a difference on one line.
func (d Difference) String() string {
	path := strings.TrimPrefix(d.Path, ".")
	text := func(v any) string {
		if d.secret {
			return "***"
		}
		return Text(v)
	}
	switch {
	case d.Old == nil:
		return "+ " + path + ": " + text(d.New)
	case d.New == nil:
		return "- " + path + ": " + text(d.Old)
	}
	return "~ " + path + ": " + text(d.Old) + " → " + text(d.New)
}

// Essential returns an object without what changes with each write.
func Essential(o map[string]any) map[string]any {
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

// Printable returns a text of somebody else without what a terminal would obey.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}
