package watchcache

import (
	"sort"

	"github.com/millrace/millrace/internal/server/store"
)

// minEvents stay in a window however large they are: otherwise a huge object would be dropped before a watch could read
// it.
const minEvents = 64

// history is a kind's window of recent events, from one fill of the kind to the next. Its kind's mutex guards all of
// it; cursors follow the links without a lock.
type history struct {
	// since is the oldest revision that a cursor may start from: everything after it is in the window.
	since store.Revision
	// last is the revision of the newest event, or the one of the fill.
	last       store.Revision
	window     window
	bytes      int
	large      int // number of events that keep a large outdated value
	list       list
	topicLists topicLists
	ages       ages
	// end says why there will be no more events; nil while there may be.
	end *link
}

func newHistory(since store.Revision, indexed []int) *history {
	return &history{since: since, last: since, list: newList(), topicLists: topicLists{indexed: indexed}}
}

func (h *history) pushLocked(e *Event, sleepers *[]chan struct{}) {
	h.last = e.Revision
	h.bytes += e.cost()
	if e.keepsLarge() {
		h.large++
	}
	l := h.list.push(e, sleepers)
	h.window.push(place{link: l, revision: e.Revision, topicLinks: h.topicLists.pushLocked(e, sleepers)})
}

// trimLocked forgets the oldest events until the window is within its bounds.
func (h *history) trimLocked(events, bytes int) {
	for h.window.len() > minEvents && (h.window.len() > events || h.bytes > bytes) {
		h.shiftLocked(endExpired)
	}
}

// shiftLocked forgets the oldest event. Cursors that have not read it find end.
func (h *history) shiftLocked(end *link) {
	p := h.window.shift()
	e := p.link.event.Load()
	h.since = e.Revision
	h.bytes -= e.cost()
	if e.keepsLarge() {
		h.large--
	}
	h.list.shift(p.link, end)
	for _, s := range p.topicLinks {
		s.topicList.list.shift(s.link, end)
	}
	e.dropForms()
}

// afterLocked returns the link right before the first event after rev, which is not before since.
func (h *history) afterLocked(rev store.Revision) *link {
	i := sort.Search(h.window.len(), func(i int) bool { return h.window.at(i).revision > rev })
	if i == 0 {
		return h.list.base
	}
	return h.window.at(i - 1).link
}

// endLocked closes the history: its cursors get the error that belongs to end, now or at their next read.
func (h *history) endLocked(end *link, sleepers *[]chan struct{}) {
	if h.end != nil {
		return
	}
	h.end = end
	for h.window.len() > 0 {
		h.shiftLocked(end)
	}
	h.list.tail.follow(end, sleepers)
	for _, th := range h.topicLists.byTopic {
		th.list.tail.follow(end, sleepers)
	}
}

// place says where one event is: on the list of all events and on lists of topics.
type place struct {
	link       *link
	revision   store.Revision
	topicLinks []topicLink
}

// window is a queue of places in blocks, so that growing and shrinking moves no place.
type window struct {
	blocks []*[blockSize]place
	first  int // index in the first block
	n      int
}

const blockSize = 256

func (w *window) len() int { return w.n }

func (w *window) at(i int) *place {
	i += w.first
	return &w.blocks[i/blockSize][i%blockSize]
}

func (w *window) push(p place) {
	if w.first+w.n == len(w.blocks)*blockSize {
		w.blocks = append(w.blocks, new([blockSize]place))
	}
	w.n++
	*w.at(w.n - 1) = p
}

func (w *window) shift() place {
	p := *w.at(0)
	*w.at(0) = place{}
	w.n--
	if w.first++; w.first == blockSize {
		w.blocks[0] = nil
		w.blocks, w.first = w.blocks[1:], 0
	}
	return p
}
