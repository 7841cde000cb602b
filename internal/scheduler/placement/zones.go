package placement

import (
	"math"
	"math/rand/v2"
)

// zoneCounts distributes pods evenly over zones if nodes are equal: the loss of a zone then affects as few pods as
// possible. Chance alone would differ by some percent.
type zoneCounts struct {
	counts  []int // by zone; 0: it has no suitable node
	most    int
	least   int // of the zones with such nodes
	atLeast int // how many zones have this count; 0: the lowest must be searched for
}

const (
	// sampleSize is how many of the equal nodes are picked at random to find one in the zone with the lowest count.
	// Eight hardly ever miss one of three zones, and the next pods correct that.
	sampleSize = 8
	// maxDeficit limits how far a zone without capacity can fall behind. Without a limit it would get all pods for a
	// while later.
	maxDeficit = 16
)

// best returns the row of a node with the highest total, or false if there is none.
func (r *ranking) best(random *rand.Rand) (int, bool) {
	value, count := r.totals.best()
	if count == 0 {
		return 0, false
	}
	r.zoneCounts.settle()
	choice := r.totals.nth(value, random.IntN(count))
	for range min(sampleSize, count) - 1 {
		counts := r.zoneCounts.counts[r.table.zones[choice]]
		if counts == r.zoneCounts.least {
			break
		}
		if other := r.totals.nth(value, random.IntN(count)); r.zoneCounts.counts[r.table.zones[other]] < counts {
			choice = other
		}
	}
	r.zoneCounts.take(r.table.zones[choice])
	return choice, true
}

// addZone adds a zone. A new zone starts with the lowest count.
func (t *zoneCounts) addZone(zone int) {
	if zone >= len(t.counts) {
		t.counts = grown(t.counts, zone+1)
	}
	if t.counts[zone] > 0 {
		return
	}
	t.least, t.most = max(t.least, 1), max(t.most, 1)
	t.counts[zone] = t.least
	t.atLeast++
}

func (t *zoneCounts) take(zone int) {
	if t.counts[zone] == t.least {
		t.atLeast--
	}
	t.counts[zone]++
	t.most = max(t.most, t.counts[zone])
}

// settle finds the lowest count again when no zone has it any more.
func (t *zoneCounts) settle() {
	if t.atLeast > 0 {
		return
	}
	t.least = math.MaxInt
	for zone, counts := range t.counts {
		if counts == 0 {
			continue
		}
		counts = max(counts, t.most-maxDeficit)
		t.counts[zone] = counts
		switch {
		case counts < t.least:
			t.least, t.atLeast = counts, 1
		case counts == t.least:
			t.atLeast++
		}
	}
}
