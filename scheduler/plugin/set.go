package plugin

// Set is what a profile goes by. Filters are asked in order, relational rules after
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
