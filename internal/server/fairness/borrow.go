package fairness

import (
	"math"
	"slices"
	"time"
)

// bounds are how many seats a level has and may have.
type bounds struct{ nominal, lower, upper int }

const (
	// borrowEvery is how often seats are divided anew.
	borrowEvery = 10 * time.Second
	// memory is how much of what a level asked for is remembered from one division to the next.
	memory = 0.977
)

// share is what a configuration says of a level's seats.
type share struct {
	shares, lendable int
	borrowing        int // in percent; less than zero is without bound
}

// divide says what each level has of the seats of a server. Rounding up gives each at least one.
func divide(seats int, all map[string]share) map[string]bounds {
	sum := 0
	for _, s := range all {
		sum += s.shares
	}
	out := map[string]bounds{}
	for name, s := range all {
		var b bounds
		if sum > 0 {
			b.nominal = int(math.Ceil(float64(seats) * float64(s.shares) / float64(sum)))
		}
		b.lower = b.nominal - int(math.Round(float64(b.nominal)*float64(s.lendable)/100))
		b.upper = b.nominal + seats
		if s.borrowing >= 0 {
			b.upper = b.nominal + int(math.Round(float64(b.nominal)*float64(s.borrowing)/100))
		}
		out[name] = b
	}
	return out
}

// demand is how many seats a level asked for: over time, and smoothed over many divisions.
type demand struct {
	time, sum, squares, high float64
	average, deviation       float64
	mark                     float64 // the highest of the last period
	smooth, target           float64
}

func (d *demand) add(wanted, seconds float64) {
	d.time += seconds
	d.sum += wanted * seconds
	d.squares += wanted * wanted * seconds
	d.high = max(d.high, wanted)
}

// close ends a period. It goes on with what is asked for now.
func (d *demand) close(now float64) {
	if d.time > 0 {
		d.average = d.sum / d.time
		d.deviation = math.Sqrt(max(d.squares/d.time-d.average*d.average, 0))
	}
	d.mark = max(d.high, now)
	envelope := d.average + d.deviation
	d.smooth = max(envelope, memory*d.smooth+(1-memory)*envelope)
	d.time, d.sum, d.squares, d.high = 0, 0, 0, now
}

// claim is what a level has to get in a division, and what it aims for.
type claim struct{ least, target, upper float64 }

// fair finds how much of its aim each level gets, so that together they have the seats.
func fair(seats float64, all []claim) (seatsOf []float64, fraction float64) {
	least, upper := 0.0, 0.0
	for _, c := range all {
		least += c.least
		upper += c.upper
	}
	at := func(f float64) (of []float64, sum float64) {
		for _, c := range all {
			n := min(max(c.least, f*c.target), c.upper)
			of, sum = append(of, n), sum+n
		}
		return of, sum
	}
	if least >= seats {
		of, _ := at(0)
		return of, 0
	}
	low, high := 0.0, 1.0
	for range 60 {
		if _, sum := at(high); sum >= min(seats, upper) {
			break
		}
		high *= 2
	}
	for range 60 {
		middle := (low + high) / 2
		if _, sum := at(middle); sum > seats {
			high = middle
		} else {
			low = middle
		}
	}
	of, _ := at(low)
	return of, low
}

// borrow divides the seats anew by what the levels asked for. It returns false if that is what they asked for the last
// time.
func (s *snapshot) borrow(seats int, now time.Time) (fraction float64, anew bool) {
	claims := make([]claim, len(s.levels))
	taken := 0.0
	for i, l := range s.levels {
		claims[i] = l.claim(now)
		if l.exempted() {
			taken += claims[i].least
			claims[i] = claim{}
		}
	}
	if s.claims != nil && s.taken == taken && slices.Equal(claims, s.claims) {
		return 0, false
	}
	s.claims, s.taken = claims, taken
	seatsOf, fraction := fair(float64(seats)-taken, claims)
	for i, l := range s.levels {
		l.resize(int(math.Round(seatsOf[i])))
	}
	return fraction, true
}

func (l *Level) exempted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queuing.exempt
}

// claim ends a period of the level.
func (l *Level) claim(now time.Time) claim {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.advanceLocked(now)
	l.demand.close(float64(l.inUse + l.waitingSeats))
	lower, nominal := float64(l.bounds.lower), float64(l.bounds.nominal)
	least := max(lower, min(nominal, l.demand.mark))
	l.demand.target = max(lower, l.demand.smooth)
	return claim{least: least, target: max(l.demand.target, 1), upper: max(float64(l.bounds.upper), least)}
}

// resize gives the level another number of seats.
func (l *Level) resize(seats int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queuing.exempt {
		return
	}
	l.current = max(seats, 1)
	l.dispatchLocked()
}
