package ownership

import (
	_ "embed"
	"slices"
	"strings"
	"sync"
)

//go:generate go run ./internal/topologygen

// topologyText says which lists are owned by element and which maps and structs as a whole.
//
//go:embed topology.txt
var topologyText string

// topology is what the table says of one type.
type topology struct {
	atomic bool
	fields map[string]relation
}

// relation is how a field is owned where that is not the rule.
type relation struct {
	atomic, granular, set bool
	keys                  []string // sorted, as in paths
}

// topologies is read once, when the first shape is made. It is the same for all clusters.
var topologies = sync.OnceValue(func() map[string]topology {
	all := map[string]topology{}
	current := ""
	for line := range strings.Lines(topologyText) {
		line = strings.TrimSuffix(line, "\n")
		if field, ok := strings.CutPrefix(line, "\t"); ok {
			name, how, _ := strings.Cut(field, " ")
			all[current].fields[name] = parseRelation(how)
			continue
		}
		name, atomic := strings.CutSuffix(line, " atomic")
		current = name
		all[name] = topology{atomic: atomic, fields: map[string]relation{}}
	}
	return all
})

func parseRelation(text string) relation {
	switch keys, keyed := strings.CutPrefix(text, "keys="); {
	case keyed:
		list := strings.Split(keys, ",")
		slices.Sort(list)
		return relation{keys: list}
	case text == "set":
		return relation{set: true}
	case text == "granular":
		return relation{granular: true}
	}
	return relation{atomic: true}
}
