package queue

// absent is the position of an entry that is not in a heap.
const absent = -1

// slot is an entry with its rank. The rank is copied here so that comparisons need not load the entry.
type slot[E any] struct {
	rank  int64
	seq   uint64 // of arrival, which decides among equal ranks
	entry E
}

func (s slot[E]) before(t slot[E]) bool {
	return s.rank < t.rank || s.rank == t.rank && s.seq < t.seq
}

// heap is a heap of slots. It stores each entry's position in the entry, so that the entry can be found again.
type heap[E any] struct {
	slots []slot[E]
	moved func(E, int)
}

func (h *heap[E]) len() int { return len(h.slots) }

func (h *heap[E]) push(s slot[E]) {
	h.slots = append(h.slots, s)
	h.up(len(h.slots) - 1)
}

// promote gives the entry at pos a lower rank.
func (h *heap[E]) promote(pos int, rank int64) {
	h.slots[pos].rank = rank
	h.up(pos)
}

func (h *heap[E]) pop() E {
	first := h.slots[0].entry
	last := len(h.slots) - 1
	h.slots[0] = h.slots[last]
	h.slots[last] = slot[E]{}
	h.slots = h.slots[:last]
	if last > 0 {
		h.down(0)
	}
	h.moved(first, absent)
	return first
}

func (h *heap[E]) up(pos int) {
	s := h.slots[pos]
	for pos > 0 {
		parent := (pos - 1) / 2
		if !s.before(h.slots[parent]) {
			break
		}
		h.set(pos, h.slots[parent])
		pos = parent
	}
	h.set(pos, s)
}

func (h *heap[E]) down(pos int) {
	s := h.slots[pos]
	for {
		child := 2*pos + 1
		if child >= len(h.slots) {
			break
		}
		if right := child + 1; right < len(h.slots) && h.slots[right].before(h.slots[child]) {
			child = right
		}
		if !h.slots[child].before(s) {
			break
		}
		h.set(pos, h.slots[child])
		pos = child
	}
	h.set(pos, s)
}

func (h *heap[E]) set(pos int, s slot[E]) {
	h.slots[pos] = s
	h.moved(s.entry, pos)
}
