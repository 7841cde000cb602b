package differences_test

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// dice decide what a story is made of. Two dice of one seed decide the same.
type dice struct{ *rand.Rand }

// chance is true in some of a hundred cases.
func (d dice) chance(percent int) bool { return d.IntN(100) < percent }

// pick returns one of the values.
func pick[T any](d dice, all ...T) T { return all[d.IntN(len(all))] }

// keys are the names in a map, in an order that does not depend on chance.
func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// clone copies a tree of JSON.
func clone[T any](v T) T { return copyOf(v).(T) }

func copyOf(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, inner := range v {
			out[k] = copyOf(inner)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = copyOf(inner)
		}
		return out
	}
	return v
}
