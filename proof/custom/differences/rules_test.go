package differences_test

import (
	"fmt"
	"regexp"
	"strings"
)

// rules returns CEL rules for the values of a schema. A few of them do not compile, fail, or cost too much.
func (d dice) rules(s node) []any {
	var out []any
	for range 1 + d.IntN(2) {
		rule := node{"rule": d.expression(s)}
		if d.chance(30) {
			rule["message"] = pick(d, "so it must be", "  spaces ", "a\nb", "")
		}
		if d.chance(35) {
			rule["messageExpression"] = d.message(s)
		}
		if d.chance(25) {
			rule["reason"] = pick(d, "FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate")
		}
		if d.chance(8) {
			rule["optionalOldSelf"] = d.chance(80)
		}
		if properties, ok := s["properties"].(node); ok && d.chance(30) {
			rule["fieldPath"] = d.fieldPath(pick(d, keys(properties)...))
		}
		out = append(out, rule)
	}
	return out
}

func (d dice) fieldPath(name string) string {
	if d.chance(10) {
		return pick(d, ".none", name, "", ".a[0]", "$.a", ".a..b", ".['a']", ". a", ".a.b")
	}
	return pick(d, "."+name, "['"+name+"']")
}

// expression returns a condition. Most hold for most values.
func (d dice) expression(s node) string {
	if d.chance(8) {
		return pick(d, "self +", "self.none == 1", "self", "'text'", "", "1 / 0 == 1", "unknown == 1", "[1][3] == 1", "self == self", "true", "oldSelf == self", "self.all(", "size(self) > size(oldSelf)",
			"oldSelf.hasValue() || true", "oldSelf.optMap(o, o == self).orValue(true)", "dyn(self).x.y == 1", "type(self) == string")
	}
	common := []string{"self == oldSelf", "self != oldSelf", "oldSelf == self || true", "type(self) != bool"}
	switch s["type"] {
	case "string":
		return pick(d, append(common, "self.size() < 5", "self.startsWith('a') || self.size() < 3", "self != 'b'", "self.matches('^[a-z]*$')", "self.matches('[')", "self.lowerAscii() == self",
			"self in ['a', 'b', 'abc', 'red']", "self.contains('a') || !self.contains('c')", "self.size() >= oldSelf.size()", "self.split('').size() < 4", "self.find('a') != 'x'", "isURL(self) || true", "quantity('1').isInteger()")...)
	case "integer":
		return pick(d, append(common, "self < 7", "self >= 1", "self % 2 == 0 || self > 2", "self >= oldSelf", "10 / self > 1", "self + 1 > self", "double(self) < 6.5")...)
	case "number":
		return pick(d, append(common, "self < 7.0", "self >= 1.0", "self >= oldSelf", "int(self) < 5")...)
	case "boolean":
		return pick(d, "self", "!self", "self == oldSelf", "self || !oldSelf", "self || true")
	case "array":
		return pick(d, "size(self) < 3", "self.all(x, x == x)", "self.exists(x, x == self[0])", "self == oldSelf", "size(self) >= size(oldSelf)", "self[0] == self[0]", "self.map(x, x).size() < 3",
			"self.all(x, x in oldSelf)", "self.all(x, self.all(y, self.all(z, x == y || y == z || true)))", "self.exists_one(x, x == x)", "self.filter(x, x != x).size() == 0", "self.isSorted() || true")
	case "object":
		if properties, ok := s["properties"].(node); ok {
			return d.onProperties(properties)
		}
		return pick(d, "size(self) < 3", "self.all(k, k != 'kb')", "'ka' in self || true", "self == oldSelf", "self.all(k, size(k) < 4)", "self.exists(k, self[k] == self[k])", "self['ka'] == self['ka']",
			"self.all(k, self.all(l, self.all(m, k == l || l == m || true)))")
	}
	return pick(d, "type(self) == int || self == 'a' || self == 'b'", "self == oldSelf", "true", "string(self) != '7'")
}

func (d dice) onProperties(properties node) string {
	name := pick(d, keys(properties)...)
	field := escaped(name)
	if inner, ok := properties[name].(node); ok && d.chance(30) {
		return fmt.Sprintf("!has(self.%s) || %s", field, replaced(d.expression(inner), "self."+field))
	}
	return fmt.Sprintf(pick(d, "has(self.%s)", "!has(self.%s)", "!has(self.%[1]s) || self.%[1]s == self.%[1]s", "self.%[1]s == self.%[1]s", "has(self.%[1]s) == has(oldSelf.%[1]s)",
		"!has(oldSelf.%[1]s) || self.%[1]s == oldSelf.%[1]s", "self.?%[1]s.hasValue() || true", "self == oldSelf || has(self.%s)"), field)
}

// message returns an expression of a message; few of them are wrong.
func (d dice) message(s node) string {
	if d.chance(15) {
		return pick(d, "1", "self.", "''", "' '", "'a\\nb'", "self.none", "string(1 / 0)", "'x' + self")
	}
	switch s["type"] {
	case "string":
		return "'it is ' + self"
	case "integer", "number", "boolean":
		return pick(d, "'it is ' + string(self)", "string(self) + ' was ' + string(oldSelf)", "'it is ' + string(10 / int(self))")
	case "array":
		return "'it has ' + string(size(self))"
	}
	return pick(d, "'words'", "'old ' + string(size(oldSelf) > 0)", "'a' + 'b'")
}

// escaped is a property's name as CEL has it.
func escaped(name string) string {
	switch name {
	case "in", "namespace":
		return "__" + name + "__"
	}
	return strings.NewReplacer("__", "__underscores__", "-", "__dash__", ".", "__dot__", "/", "__slash__").Replace(name)
}

var selves = regexp.MustCompile(`\b(self|oldSelf)\b`)

// replaced is an expression about a part.
func replaced(expression, part string) string {
	return selves.ReplaceAllStringFunc(expression, func(word string) string {
		return word + strings.TrimPrefix(part, "self")
	})
}
