package watchcache

import (
	"cmp"
	"iter"
	"maps"
	"slices"
)

// Label is one label of an object.
type Label struct{ Key, Value string }

// Labels are an object's labels. The zero value has none. Objects with equal labels share one set, as the pods of a
// ReplicaSet do.
type Labels struct{ set *labelSet }

type labelSet struct{ labels []Label }

// MakeLabels takes ownership of the slice. If a key comes twice, the later label wins.
func MakeLabels(labels []Label) Labels {
	if len(labels) == 0 {
		return Labels{}
	}
	byKey := func(a, b Label) int { return cmp.Compare(a.Key, b.Key) }
	if !slices.IsSortedFunc(labels, byKey) {
		slices.SortStableFunc(labels, byKey)
	}
	last := labels[:0]
	for i, l := range labels {
		if i+1 == len(labels) || labels[i+1].Key != l.Key {
			last = append(last, l)
		}
	}
	return Labels{&labelSet{last}}
}

// LabelsOf converts a map to labels.
func LabelsOf(m map[string]string) Labels {
	if len(m) == 0 {
		return Labels{}
	}
	labels := make([]Label, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		labels = append(labels, Label{k, m[k]})
	}
	return MakeLabels(labels)
}

// Lookup returns a label's value, and whether the label exists.
func (l Labels) Lookup(key string) (string, bool) {
	if l.set == nil {
		return "", false
	}
	for i := range l.set.labels { // so few that a binary search would be slower
		if l.set.labels[i].Key == key {
			return l.set.labels[i].Value, true
		}
	}
	return "", false
}

// Has reports whether the label exists.
func (l Labels) Has(key string) bool {
	_, ok := l.Lookup(key)
	return ok
}

// Get returns a label's value, or the empty string.
func (l Labels) Get(key string) string {
	v, _ := l.Lookup(key)
	return v
}

// Len returns the number of labels.
func (l Labels) Len() int {
	if l.set == nil {
		return 0
	}
	return len(l.set.labels)
}

// All yields the labels by ascending key.
func (l Labels) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		if l.set == nil {
			return
		}
		for _, p := range l.set.labels {
			if !yield(p.Key, p.Value) {
				return
			}
		}
	}
}
