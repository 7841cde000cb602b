package placement

import (
	"math"
	"math/rand/v2"
)

// turns lets the zones take turns where nodes are equal: pods of one kind are then as even between
// the zones as these have room, and the loss of a zone takes no more of them than it
// must. Chance alone would be off by some percent.
type turns struct {
	had     []int // by zone; 0: it has no node that the pods may go to
	most    int
	least   int // of the zones with such nodes
	atLeast int // how many zones have had so few; 0: the least must be searched for
}

const (
	// looks is how many of the equal nodes are looked at, picked at random, for one whose zone has
	// its turn. Eight hardly ever miss one of three zones, and the next pods make up for it.
	looks = 8
	// owed bounds what a zone is owed that had no room for long. Without a bound it would get all pods for a while.
	owed = 16
)

// best returns the row of a node with the highest total, or false if there is none.
func (r *ranking) best(random *rand.Rand) (int, bool) {
	value, count := r.totals.best()
	if count == 0 {
		return 0, false
	}
	r.turns.settle()
	choice := r.totals.nth(value, random.IntN(count))
	for range min(looks, count) - 1 {
		had := r.turns.had[r.table.zones[choice]]
		if had == r.turns.least {
			break
		}
		if other := r.totals.nth(value, random.IntN(count)); r.turns.had[r.table.zones[other]] < had {
			choice = other
		}
	}
	r.turns.take(r.table.zones[choice])
	return choice, true
}

// meet makes a zone known. One that is new has missed nothing.
func (t *turns) meet(zone int) {
	if zone >= len(t.had) {
		t.had = grown(t.had, zone+1)
	}
	if t.had[zone] > 0 {
		return
	}
	t.least, t.most = max(t.least, 1), max(t.most, 1)
	t.had[zone] = t.least
	t.atLeast++
}

func (t *turns) take(zone int) {
	if t.had[zone] == t.least {
		t.atLeast--
	}
	t.had[zone]++
	t.most = max(t.most, t.had[zone])
}

// settle finds the least anew when no zone has had so few any more.
func (t *turns) settle() {
	if t.atLeast > 0 {
		return
	}
	t.least = math.MaxInt
	for zone, had := range t.had {
		if had == 0 {
			continue
		}
		had = max(had, t.most-owed)
		t.had[zone] = had
		switch {
		case had < t.least:
			t.least, t.atLeast = had, 1
		case had == t.least:
			t.atLeast++
		}
	}
}
