package scheduler

import (
	"slices"
	"testing"
)

func TestNewsIsTakenInInItsOrderBeforeAnybodyReadsTheState(t *testing.T) {
	options := Options{}.withDefaults()
	options.Profiles = nil
	k := newKnowledge(options)
	var seen []int
	tell := func(i int) {
		k.tell(func() string {
			seen = append(seen, i)
			return ""
		})
	}
	for i := range 3 {
		tell(i)
	}
	if len(seen) > 0 {
		t.Errorf("%v were taken in by who brought them", seen)
	}
	k.lock()
	k.mu.Unlock()
	tell(3)
	k.counts()
	if want := []int{0, 1, 2, 3}; !slices.Equal(seen, want) {
		t.Errorf("%v were taken in, want %v", seen, want)
	}
	for i := range mostNews {
		tell(4 + i)
	}
	if len(seen) != 4+mostNews {
		t.Errorf("%d were taken in while nobody reads the state, want %d", len(seen), 4+mostNews)
	}
}
