package differences_test

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// texts are values of formats.
var texts = map[string][]string{
	"date-time": {"2024-01-02T03:04:05Z", "2024-01-02T03:04:05.678+02:00"}, "date": {"2024-02-29", "1999-12-31"}, "uuid": {"123e4567-e89b-12d3-a456-426614174000"},
	"ipv4": {"10.0.0.1"}, "ipv6": {"::1", "fd00::1"}, "cidr": {"10.0.0.0/8", "fd00::/64"}, "email": {"a@example.com"}, "uri": {"http://example.com/a?b=c"},
	"hostname": {"a.example.com"}, "byte": {"YWJj", ""}, "duration": {"1h2m", "3s"}, "mac": {"00:00:5e:00:53:01"}, "bsonobjectid": {"507f1f77bcf86cd799439011"},
	"k8s-short-name": {"a-b"},
}

// oddTexts are values of formats that are none, or nearly so.
var oddTexts = []string{"not one", "2024-02-30", "2024-01-02", "10.0.0.01", "::ffff:10.0.0.1", "10.0.0.0/33", "A.B", "a@", "%zz", "YW=", "1x", "-1s", "\u0000", "é", "zz:00:5e:00:53:01", strings.Repeat("long", 80)}

var words = []string{"a", "b", "ab", "abc", "red", "", "hello", "äö", "12"}

// value returns a value that a schema without value validations and rules lets pass. Fill is how many of a hundred
// optional fields are there.
func (d dice) value(s node, fill int) any {
	if s["nullable"] == true && d.chance(10) {
		return nil
	}
	if enum, ok := s["enum"].([]any); ok {
		return pick(d, enum...)
	}
	switch s["type"] {
	case "string":
		return d.text(s)
	case "integer":
		return d.number(s)
	case "number":
		return pick[any](d, d.number(s), 1.5, 3.25)
	case "boolean":
		return d.chance(60)
	case "array":
		return d.list(s, fill)
	case "object":
		return d.object(s, fill)
	}
	if s["x-kubernetes-int-or-string"] == true {
		return pick[any](d, 1, 7, "a", "b")
	}
	return pick[any](d, node{"x": 1, "y": []any{"z", nil}}, "text", 3, true, []any{1, "b"})
}

func (d dice) text(s node) string {
	if format, _ := s["format"].(string); len(texts[format]) > 0 {
		return pick(d, texts[format]...)
	}
	for range 20 {
		text := pick(d, words...)
		n := utf8.RuneCountInString(text)
		least, _ := s["minLength"].(int)
		most, bounded := s["maxLength"].(int)
		pattern, _ := s["pattern"].(string)
		if n >= least && (!bounded || n <= most) && (pattern == "" || regexp.MustCompile(pattern).MatchString(text)) {
			return text
		}
	}
	return "a"
}

func (d dice) number(s node) any {
	for range 20 {
		n := d.IntN(9)
		least, _ := s["minimum"].(int)
		most, bounded := s["maximum"].(int)
		of, _ := s["multipleOf"].(int)
		if n >= least && !(n == least && s["exclusiveMinimum"] == true) && (!bounded || n <= most) && (of == 0 || n%of == 0) {
			return n
		}
	}
	return 6
}

func (d dice) list(s node, fill int) any {
	item, _ := s["items"].(node)
	least, _ := s["minItems"].(int)
	most, bounded := s["maxItems"].(int)
	if !bounded {
		most = 3
	}
	out, seen := []any{}, map[string]bool{}
	for range least + d.IntN(max(most-least, 0)+1) {
		v := d.value(item, fill)
		as := fmt.Sprint(v)
		if o, ok := v.(node); ok && s["x-kubernetes-list-type"] == "map" {
			as = fmt.Sprint(o["name"])
		}
		if !seen[as] || s["x-kubernetes-list-type"] == nil {
			out = append(out, v)
		}
		seen[as] = true
	}
	return out
}

func (d dice) object(s node, fill int) any {
	out := node{}
	if s["x-kubernetes-embedded-resource"] == true {
		out["apiVersion"], out["kind"], out["metadata"] = "v1", "Pod", node{"name": "inner", "labels": node{"a": "b"}}
	}
	required := fmt.Sprint(s["required"])
	properties, _ := s["properties"].(node)
	for _, name := range keys(properties) {
		if strings.Contains(required, name) || d.chance(fill) {
			out[name] = d.value(properties[name].(node), fill)
		}
	}
	if inner, ok := s["additionalProperties"].(node); ok {
		for range d.IntN(4) {
			out[pick(d, "ka", "kb", "kc", "k.d/e")] = d.value(inner, fill)
		}
	}
	if s["x-kubernetes-preserve-unknown-fields"] == true && d.chance(50) {
		out["more"] = pick[any](d, "text", 1, node{"x": nil}, []any{})
	}
	return out
}

// wrong returns a value that a schema hardly allows.
func (d dice) wrong(s node) any {
	if s["format"] != nil && d.chance(70) {
		return pick(d, oddTexts...)
	}
	switch n := d.IntN(12); {
	case n == 0:
		return nil
	case n < 5 && s["type"] == "string":
		return pick[any](d, "zzzz", "", "UPPER", strings.Repeat("x", 300), "c")
	case n < 5 && (s["type"] == "integer" || s["type"] == "number"):
		return pick[any](d, -1, 99, 3.5, int64(1)<<40, 1e30, 2.0)
	case n < 7 && s["type"] == "array":
		item, _ := s["items"].(node)
		v := d.value(item, 100)
		return pick[any](d, []any{}, []any{v, v}, []any{v, copyOf(v), 1}, []any{nil}, []any{v, v, v, v, v, v})
	case n < 7 && s["type"] == "object":
		return pick[any](d, node{}, node{"unknown": 1}, node{"a": nil}, node{"": "x"})
	}
	return pick[any](d, "text", 7, 1.5, true, []any{}, []any{"a"}, node{}, node{"a": "b"})
}
