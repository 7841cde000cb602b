package backlog

// heap is a binary heap of entries. Each entry knows its index in it.
type heap struct {
	less    func(a, b *Entry) bool
	entries []*Entry
}

func (h *heap) push(e *Entry) {
	e.slot = len(h.entries)
	h.entries = append(h.entries, e)
	h.up(e.slot)
}

func (h *heap) first() *Entry {
	if len(h.entries) == 0 {
		return nil
	}
	return h.entries[0]
}

func (h *heap) remove(e *Entry) {
	i, last := e.slot, len(h.entries)-1
	h.swap(i, last)
	h.entries[last] = nil
	h.entries = h.entries[:last]
	if i < last {
		h.up(i)
		h.down(i)
	}
}

func (h *heap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.less(h.entries[i], h.entries[parent]) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h *heap) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h.entries) {
			return
		}
		if right := child + 1; right < len(h.entries) && h.less(h.entries[right], h.entries[child]) {
			child = right
		}
		if !h.less(h.entries[child], h.entries[i]) {
			return
		}
		h.swap(i, child)
		i = child
	}
}

func (h *heap) swap(i, j int) {
	h.entries[i], h.entries[j] = h.entries[j], h.entries[i]
	h.entries[i].slot, h.entries[j].slot = i, j
}
