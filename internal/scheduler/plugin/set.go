package plugin

// Set has the rules of a profile. Filters are called in order, then relational rules. The first that refuses a node is
// reported.
type Set struct {
	Filters   []Filter
	Scores    []Weighted[Score]
	Relations []Weighted[Relational]
	// Pods are the rules for single pods. They are called last, but those that are not [Late] are reported before
	// relational ones.
	Pods []Weighted[PodRule]
}

// Late is a [PodRule] that is reported after the relational rules.
type Late interface{ Late() }

// Weighted is a rule with the weight of its score.
type Weighted[P Plugin] struct {
	Plugin P
	Weight int64
}
