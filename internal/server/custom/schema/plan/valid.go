package plan

import (
	"math"
	"slices"
	"unicode/utf8"

	"k8s.io/kube-openapi/pkg/validation/strfmt"
)

// Valid tells that nothing is wrong with an object by its schema.
func (p *Plan) Valid(object map[string]any) bool {
	return p != nil && !p.root.odd && p.root.kind == "object" && p.root.validMap(object, true)
}

func (n *node) valid(value any) bool {
	if n.odd || n.unknown || n.embedded {
		return false
	}
	if value == nil {
		return n.nullable && n.enum == nil
	}
	if n.enum != nil && !slices.Contains(n.enum, comparable(value)) {
		return false
	}
	switch v := value.(type) {
	case map[string]any:
		return (n.kind == "object" || n.anything()) && n.validMap(v, false)
	case []any:
		return (n.kind == "array" || n.anything()) && n.validList(v)
	case string:
		return (n.kind == "string" || n.intOrText || n.anything()) && n.validText(v)
	case int64:
		return (n.kind == "integer" || n.kind == "number" || n.intOrText || n.anything()) && n.validInteger(v)
	case float64:
		return n.kind == "number" && n.within(v)
	case bool:
		return n.kind == "boolean" || n.anything()
	}
	return false
}

// anything tells that values of all types are welcome.
func (n *node) anything() bool { return n.kind == "" && n.preserve && !n.intOrText }

// comparable is a value that can be looked for among others. Maps and lists are never among them.
func comparable(value any) any {
	switch value.(type) {
	case string, int64, bool:
		return value
	}
	return nil
}

func (n *node) validMap(object map[string]any, outermost bool) bool {
	if !fits(int64(len(object)), n.minMembers, n.maxMembers) {
		return false
	}
	for _, name := range n.required {
		if _, ok := object[name]; !ok {
			return false
		}
	}
	for name, value := range object {
		if outermost && header(name) {
			continue
		}
		if member := n.member(name); member != nil && !member.valid(value) {
			return false
		}
	}
	return true
}

func (n *node) validList(list []any) bool {
	if !fits(int64(len(list)), n.minItems, n.maxItems) {
		return false
	}
	if n.items != nil {
		for _, value := range list {
			if !n.items.valid(value) {
				return false
			}
		}
	}
	switch {
	case n.set:
		return distinct(list, func(a, b any) bool { return comparable(a) != nil && comparable(b) != nil && a != b })
	case n.keys != nil:
		return distinct(list, n.apart)
	}
	return true
}

// mostCompared is up to how many elements are compared with each other.
const mostCompared = 32

// distinct tells that no two elements are the same.
func distinct(list []any, apart func(a, b any) bool) bool {
	if len(list) > mostCompared {
		return false
	}
	for i, a := range list {
		for _, b := range list[:i] {
			if !apart(a, b) {
				return false
			}
		}
	}
	return true
}

// apart tells that two elements have different keys.
func (n *node) apart(a, b any) bool {
	x, ok := a.(map[string]any)
	y, also := b.(map[string]any)
	if !ok || !also {
		return false
	}
	for _, k := range n.keys {
		one, other := comparable(x[k]), comparable(y[k])
		if one == nil || other == nil {
			return false
		}
		if one != other {
			return true
		}
	}
	return false
}

func (n *node) validText(text string) bool {
	if n.minLength != nil || n.maxLength != nil {
		if !fits(int64(utf8.RuneCountInString(text)), n.minLength, n.maxLength) {
			return false
		}
	}
	return (n.pattern == nil || n.pattern.MatchString(text)) && (n.format == "" || n.kind == "string" && strfmt.Default.Validates(n.format, text))
}

// mostExact is up to where all integers are floating point numbers.
const mostExact = 1 << 53

func (n *node) validInteger(i int64) bool {
	if n.format == "int32" && (i < math.MinInt32 || i > math.MaxInt32) || i > mostExact || i < -mostExact {
		return false
	}
	return n.within(float64(i))
}

func (n *node) within(f float64) bool {
	if n.least != nil && (f < *n.least || n.overLeast && f == *n.least) {
		return false
	}
	return n.most == nil || f < *n.most || !n.underMost && f == *n.most
}

func fits(n int64, least, most *int64) bool {
	return (least == nil || n >= *least) && (most == nil || n <= *most)
}
