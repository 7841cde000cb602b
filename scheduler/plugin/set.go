package plugin

// Set is what a profile goes by. Filters are asked in order, relational rules after
// them; the first that refuses a node is the one that is named.
type Set struct {
	Filters   []Filter
	Scores    []Weighted[Score]
	Relations []Weighted[Relational]
	// Pods are the rules that look at single pods. They are asked last, but those that are not [Late] are named before relational ones.
	Pods []Weighted[PodRule]
}

// Late is a [PodRule] that stands after the relational rules.
type Late interface{ Late() }

// Weighted is a rule whose score counts several times.
type Weighted[P Plugin] struct {
	Plugin P
	Weight int64
}
