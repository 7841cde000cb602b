package watchcache

import (
	"encoding/binary"
	"strings"
	"sync"
)

// The size of an interner: two generations of this many values. A value that appears less often is forgotten, which
// costs only another copy of it.
const (
	internStrings = 16 << 10
	internSets    = 8 << 10
	// Values longer than internLongest are hardly ever shared and stay out of the table.
	internLongest = 128
)

// interner replaces equal strings and equal label sets by one copy. What it returns never points into its caller's
// memory.
type interner struct {
	mu      sync.Mutex
	strings generations[string]
	sets    generations[*labelSet]
	scratch []byte
}

// generations is a bounded table: entries that were not used during a whole generation are dropped.
type generations[V any] struct {
	young, old map[string]V
}

func (g *generations[V]) get(key []byte, limit int) (V, bool) {
	v, ok := g.young[string(key)]
	if !ok {
		if v, ok = g.old[string(key)]; ok {
			g.put(string(key), v, limit)
		}
	}
	return v, ok
}

func (g *generations[V]) put(key string, v V, limit int) {
	if g.young == nil || len(g.young) >= limit {
		g.old, g.young = g.young, make(map[string]V)
	}
	g.young[key] = v
}

// attributes returns a copy of a that shares memory with equal attributes.
func (in *interner) attributes(a Attributes) Attributes {
	in.mu.Lock()
	defer in.mu.Unlock()
	out := Attributes{Labels: in.labelsLocked(a.Labels)}
	if len(a.Fields) > 0 {
		out.Fields = make([]string, len(a.Fields))
		for i, f := range a.Fields {
			out.Fields[i] = in.stringLocked(f)
		}
	}
	return out
}

func (in *interner) stringLocked(s string) string {
	if s == "" {
		return ""
	}
	if len(s) > internLongest {
		return strings.Clone(s)
	}
	if v, ok := in.strings.young[s]; ok {
		return v
	}
	v, ok := in.strings.old[s]
	if !ok {
		v = strings.Clone(s)
	}
	in.strings.put(v, v, internStrings)
	return v
}

func (in *interner) labelsLocked(l Labels) Labels {
	if l.Len() == 0 {
		return Labels{}
	}
	b := in.scratch[:0]
	for _, p := range l.set.labels {
		b = append(binary.AppendUvarint(b, uint64(len(p.Key))), p.Key...)
		b = append(binary.AppendUvarint(b, uint64(len(p.Value))), p.Value...)
	}
	in.scratch = b
	if set, ok := in.sets.get(b, internSets); ok {
		return Labels{set}
	}
	set := &labelSet{make([]Label, 0, len(l.set.labels))}
	for _, p := range l.set.labels {
		set.labels = append(set.labels, Label{in.stringLocked(p.Key), in.stringLocked(p.Value)})
	}
	in.sets.put(string(b), set, internSets)
	return Labels{set}
}
