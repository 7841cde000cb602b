package plan

import (
	"strings"

	"github.com/millrace/millrace/server/resource/tree"
)

// Whole tells of an object's text what Complete tells of the object. Names must be sorted, as encoders write them.
func (p *Plan) Whole(text []byte) bool {
	return p != nil && p.root.wholeMap(text, true)
}

func (n *node) whole(text []byte) bool {
	switch c := text[0]; {
	case c == '{':
		return !n.unknown && n.wholeMap(text, false)
	case c == '[':
		return !n.unknown && n.wholeList(text)
	case c == '"', c == '-', c >= '0' && c <= '9':
		return true
	}
	switch string(text) {
	case "null":
		return n.nullable
	case "true", "false":
		return true
	}
	return false
}

func (n *node) wholeMap(text []byte, outermost bool) bool {
	if n.embedded {
		return false
	}
	filled, whole, last := 0, true, ""
	ended := tree.Members(text, func(quoted, value []byte) bool {
		name := string(quoted[1 : len(quoted)-1])
		if whole = (name > last || last == "") && !strings.ContainsRune(name, '\\'); !whole {
			return false
		}
		last = name
		if outermost && header(name) {
			if name == "metadata" {
				whole = wholeMetadata(value)
			}
			return whole
		}
		member := n.member(name)
		switch {
		case member != nil:
			if member.filled && member != n.additional {
				filled++
			}
			whole = member.whole(value)
		case !n.preserve:
			whole = false
		}
		return whole
	})
	return ended && whole && filled == n.defaults
}

func (n *node) wholeList(text []byte) bool {
	whole := true
	ended := tree.Elements(text, func(value []byte) bool {
		whole = n.items != nil && n.items.whole(value) || n.items == nil && n.preserve
		return whole
	})
	return ended && whole
}

// wholeMetadata looks at stored metadata, which has been read and written by its types.
func wholeMetadata(text []byte) bool {
	whole, generation := true, false
	ended := tree.Members(text, func(quoted, value []byte) bool {
		name := string(quoted[1 : len(quoted)-1])
		switch metadataMembers[name] {
		case textMember:
			whole = len(value) > 2 && value[0] == '"'
		case timeMember:
			whole = len(value) > 2 && plainTime(string(value[1:len(value)-1]))
		case numberMember:
			whole = value[0] >= '1' && value[0] <= '9' || name == "deletionGracePeriodSeconds" && value[0] == '0'
			generation = generation || name == "generation"
		case textsMember:
			whole = value[0] == '{' && textsOnly(value)
		case listMember:
			whole = len(value) > 2 && value[0] == '['
		default:
			whole = false
		}
		return whole
	})
	return ended && whole && generation
}

func textsOnly(text []byte) bool {
	only, any := true, false
	ended := tree.Members(text, func(_, value []byte) bool {
		only, any = value[0] == '"', true
		return only
	})
	return ended && only && any
}
