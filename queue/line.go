package queue

// line holds the ready entries, ordered by rank. Most entries arrive with the highest rank, because rank is time unless
// priorities differ. These form the run, a sorted slice that costs nothing to maintain. Only the others need a heap.
type line[K comparable] struct {
	seq  uint64
	size int
	run  []slot[*entry[K]] // run[head:] by rank; an entry that left early leaves nil
	head int
	rest heap[*entry[K]]
}

// keepRun is the capacity above which an empty run is freed.
const keepRun = 4096

func (l *line[K]) len() int { return l.size }

func (l *line[K]) push(rank int64, e *entry[K]) {
	l.seq++
	l.size++
	s := slot[*entry[K]]{rank, l.seq, e}
	if len(l.run) > 0 && rank < l.run[len(l.run)-1].rank {
		e.inRun = false
		l.rest.push(s)
		return
	}
	if l.head > 32 && l.head > len(l.run)/2 {
		l.closeUp()
	}
	e.inRun, e.ready = true, len(l.run)
	l.run = append(l.run, s)
}

// closeUp moves the run to the beginning of its slice.
func (l *line[K]) closeUp() {
	n := copy(l.run, l.run[l.head:])
	clear(l.run[n:])
	l.run, l.head = l.run[:n], 0
	for i := range l.run {
		if e := l.run[i].entry; e != nil {
			e.ready = i
		}
	}
}

// promote gives an entry of the line a lower rank.
func (l *line[K]) promote(e *entry[K], rank int64) {
	if !e.inRun {
		l.rest.promote(e.ready, rank)
		return
	}
	s := l.run[e.ready]
	l.run[e.ready].entry = nil
	l.skip()
	s.rank = rank
	e.inRun = false
	l.rest.push(s)
}

func (l *line[K]) pop() *entry[K] {
	l.size--
	if l.rest.len() > 0 && (l.head == len(l.run) || l.rest.slots[0].before(l.run[l.head])) {
		return l.rest.pop()
	}
	e := l.run[l.head].entry
	e.ready = absent
	l.run[l.head].entry = nil
	l.skip()
	return e
}

// skip moves the head to the next entry that is still there.
func (l *line[K]) skip() {
	for l.head < len(l.run) && l.run[l.head].entry == nil {
		l.head++
	}
	if l.head == len(l.run) {
		l.run, l.head = l.run[:0], 0
		if cap(l.run) > keepRun {
			l.run = nil
		}
	}
}
