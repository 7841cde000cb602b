package cluster

// changeLog lists the nodes that have changed. Its length is a few times the number of nodes: reading a longer log
// would cost more than checking every node.
type changeLog struct {
	base    uint64 // the position of entries[0]
	entries []int32
}

func (l *changeLog) head() uint64 { return l.base + uint64(len(l.entries)) }

func (l *changeLog) append(index int32, nodes int) {
	l.entries = append(l.entries, index)
	if keep := max(256, nodes); len(l.entries) >= 2*keep {
		l.base += uint64(len(l.entries) - keep)
		l.entries = append(l.entries[:0], l.entries[len(l.entries)-keep:]...)
	}
}

// all lets every node count as changed.
func (l *changeLog) all() { l.base, l.entries = l.head()+1, nil }

func (l *changeLog) since(place uint64) ([]int32, bool) {
	if place < l.base {
		return nil, false
	}
	return l.entries[place-l.base:], true
}
