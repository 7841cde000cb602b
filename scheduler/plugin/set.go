package plugin

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/scheduler/cluster"
)

// Set is what a profile goes by. Filters are asked in order, relations after
// them; the first that refuses a node is the one that is named.
type Set struct {
	Filters   []Filter
	Scores    []Weighted[Score]
	Relations []Weighted[Relational]
}

// Weighted is a rule whose score counts several times.
type Weighted[P Plugin] struct {
	Plugin P
	Weight int64
}

// Rules is a set of rules of a Set, as bits: its filters first, its relations after them.
type Rules uint64

// AllRules contains any rule.
const AllRules = ^Rules(0)

// MaxRules is how many filters and relations a set may have.
const MaxRules = 64

// RulesNamed returns the bit of each filter and relation by name.
func (s *Set) RulesNamed() map[string]Rules {
	names := make(map[string]Rules)
	for i, f := range s.Filters {
		names[f.Name()] |= 1 << i
	}
	for i, r := range s.Relations {
		names[r.Plugin.Name()] |= 1 << (len(s.Filters) + i)
	}
	return names
}

// Heeders returns the rules that heed a change.
func (s *Set) Heeders(change cluster.Change) Rules {
	var rules Rules
	for i, f := range s.Filters {
		if heeds(f, change) {
			rules |= 1 << i
		}
	}
	for i, r := range s.Relations {
		if heeds(r.Plugin, change) {
			rules |= 1 << (len(s.Filters) + i)
		}
	}
	return rules
}

// Helps says whether a change may let a pod be placed, given which of the rules
// that heed it refused the pod. node is the node that changed, if it was one:
// then no other node has become better as far as filters go, and this one can be
// looked at right away.
//
// Only the rules that refused are asked. Another one may refuse the node now,
// but that has to be found out by trying the pod: else nobody would know that
// from now on this other rule is the one to wait for.
func (s *Set) Helps(refused Rules, demand *cluster.Demand, node *cluster.Node) bool {
	if refused == 0 {
		return false
	}
	if node == nil || refused>>len(s.Filters) != 0 {
		return true
	}
	for i, f := range s.Filters {
		if refused&(1<<i) != 0 && (Skips(f, demand) || f.Filter(demand, node) == nil) {
			return true
		}
	}
	return false
}

// Skips says whether a rule has nothing to say about a demand.
func Skips(p Plugin, demand *cluster.Demand) bool {
	s, ok := p.(Skipper)
	return ok && s.Skip(demand)
}

func heeds(p Plugin, change cluster.Change) bool {
	h, ok := p.(Heeder)
	return !ok || h.Heeds()&change != 0
}

// SetMarks gives each marker of the set its place among the marks of a demand,
// from first on, and returns what the interner has to ask.
func (s *Set) SetMarks(first int) []func(*corev1.Pod) string {
	var marks []func(*corev1.Pod) string
	claim := func(p Plugin) {
		m, ok := p.(Marker)
		if !ok {
			return
		}
		index := first + len(marks)
		m.SetMark(func(d *cluster.Demand) string { return d.Mark(index) })
		marks = append(marks, m.Mark)
	}
	for _, f := range s.Filters {
		claim(f)
	}
	for _, sc := range s.Scores {
		if _, also := sc.Plugin.(Filter); !also || !s.filters(sc.Plugin) {
			claim(sc.Plugin)
		}
	}
	return marks
}

func (s *Set) filters(p Plugin) bool {
	for _, f := range s.Filters {
		if f.Name() == p.Name() {
			return true
		}
	}
	return false
}
