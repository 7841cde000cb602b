// Package ruleset is what the placement engine makes of a [plugin.Set]: rules in
// a fixed order, each filter with a bit of its own, and rules that look at the
// whole cluster in a form whose results can be kept.
//
// What it guarantees: a compiled Set asks the same rules, in the same order and
// with the same weights, as the plugin.Set that it was made from.
package ruleset
