// Package ruleset compiles a [plugin.Set] for the placement engine: rules in a fixed order, a bit for each filter, and
// relational rules in a form whose results can be kept.
//
// Guarantee: a compiled Set asks the same rules, in the same order and with the same weights, as its plugin.Set.
package ruleset
