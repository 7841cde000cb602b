package plan

// Complete tells that pruning and defaulting would leave an object as it is.
func (p *Plan) Complete(object map[string]any) bool {
	if p == nil || !completeMetadata(object["metadata"]) {
		return false
	}
	return p.root.completeMap(object, true)
}

// header tells that a name of the outermost object is none of the schema's business.
func header(name string) bool { return name == "metadata" || name == "apiVersion" || name == "kind" }

func (n *node) complete(value any) bool {
	switch v := value.(type) {
	case nil:
		return n.nullable
	case map[string]any:
		return !n.unknown && n.completeMap(v, false)
	case []any:
		return !n.unknown && n.completeList(v)
	}
	return true
}

func (n *node) completeMap(object map[string]any, outermost bool) bool {
	if n.embedded {
		return false
	}
	filled := 0
	for name, value := range object {
		if outermost && header(name) {
			continue
		}
		member := n.member(name)
		switch {
		case member != nil:
			if member.filled && member != n.additional {
				filled++
			}
			if !member.complete(value) {
				return false
			}
		case !n.preserve:
			return false
		}
	}
	return filled == n.defaults
}

// member is what is said of a value by its name; nil if nothing is.
func (n *node) member(name string) *node {
	if p, ok := n.properties[name]; ok {
		return p
	}
	return n.additional
}

func (n *node) completeList(list []any) bool {
	if n.items == nil {
		return n.preserve || len(list) == 0
	}
	for _, value := range list {
		if !n.items.complete(value) {
			return false
		}
	}
	return true
}

// What stands in the metadata of objects, and is the same before and after it was read.
const (
	textMember = iota + 1
	numberMember
	timeMember
	textsMember // a map of texts
	listMember
	truthMember
	setMember // the fields of a manager
)

var metadataMembers = map[string]int{
	"name": textMember, "namespace": textMember, "generateName": textMember, "uid": textMember, "resourceVersion": textMember,
	"generation": numberMember, "creationTimestamp": timeMember, "deletionTimestamp": timeMember, "deletionGracePeriodSeconds": numberMember,
	"labels": textsMember, "annotations": textsMember, "finalizers": listMember, "ownerReferences": listMember, "managedFields": listMember,
}

// completeMetadata tells that the metadata has nothing unknown, and no empty values, which are left out when it is
// written.
func completeMetadata(value any) bool {
	meta, ok := value.(map[string]any)
	if !ok {
		return false
	}
	for name, value := range meta {
		switch metadataMembers[name] {
		case textMember:
			if text, ok := value.(string); !ok || text == "" {
				return false
			}
		case timeMember:
			if text, ok := value.(string); !ok || !plainTime(text) {
				return false
			}
		case numberMember:
			if n, ok := value.(int64); !ok || n <= 0 {
				return false
			}
		case textsMember:
			if !completeTexts(value) {
				return false
			}
		case listMember:
			if !completeEntries(name, value) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

func completeTexts(value any) bool {
	all, ok := value.(map[string]any)
	for _, v := range all {
		if _, text := v.(string); !text {
			return false
		}
	}
	return ok && len(all) > 0
}

// What stands in the entries of the metadata's lists.
var entryMembers = map[string]map[string]int{
	"ownerReferences": {
		"apiVersion": textMember, "kind": textMember, "name": textMember, "uid": textMember, "controller": truthMember, "blockOwnerDeletion": truthMember,
	},
	"managedFields": {
		"manager": textMember, "operation": textMember, "apiVersion": textMember, "fieldsType": textMember, "subresource": textMember,
		"time": timeMember, "fieldsV1": setMember,
	},
}

func completeEntries(name string, value any) bool {
	list, ok := value.([]any)
	if !ok || len(list) == 0 {
		return false
	}
	for _, v := range list {
		if name == "finalizers" {
			if _, text := v.(string); !text {
				return false
			}
		} else if entry, ok := v.(map[string]any); !ok || !completeEntry(entry, entryMembers[name]) {
			return false
		}
	}
	return true
}

// completeEntry looks at an owner or a manager. All that must be there of an owner is written even if it is empty.
func completeEntry(entry map[string]any, members map[string]int) bool {
	for name, value := range entry {
		switch members[name] {
		case textMember:
			if text, ok := value.(string); !ok || text == "" {
				return false
			}
		case timeMember:
			if text, ok := value.(string); !ok || !plainTime(text) {
				return false
			}
		case truthMember:
			if _, ok := value.(bool); !ok {
				return false
			}
		case setMember:
			if _, ok := value.(map[string]any); !ok {
				return false
			}
		default:
			return false
		}
	}
	_, manages := members["manager"]
	return manages || len(entry) >= ownerMembers
}

// ownerMembers is how many names every owner has.
const ownerMembers = 4

// plainTime tells that a time is written as the server writes it.
func plainTime(text string) bool {
	const like = "2006-01-02T15:04:05Z"
	if len(text) != len(like) {
		return false
	}
	for i := range len(like) {
		c, is := like[i], text[i]
		if digit := c >= '0' && c <= '9'; digit && (is < '0' || is > '9') || !digit && is != c {
			return false
		}
	}
	return text[5:7] <= "12" && text[8:10] <= "28" && text[11:13] <= "23" && text[14:16] <= "59" && text[17:19] <= "59" && text[5:7] != "00" && text[8:10] != "00"
}
