package watchcache

import (
	"sync"
	"sync/atomic"
)

// Slots is the number of forms that an object or an event may have in one edition.
const Slots = 8

// forms are the encoded forms of one object or event, in tables by edition. Most objects have none, so a table is made
// only when it is needed.
type forms struct {
	budget *formBudget // nil outside of a cache: then no form is kept
	table  atomic.Pointer[formTable]
}

// formTable holds the forms of one edition.
type formTable struct {
	edition uint32
	slots   [Slots]atomic.Pointer[form]
	next    atomic.Pointer[formTable]
}

// of returns the table of an edition, and makes it if needed.
func (fs *forms) of(edition uint32) *formTable {
	for at := &fs.table; ; {
		t := at.Load()
		if t == nil {
			t = &formTable{edition: edition}
			if !at.CompareAndSwap(nil, t) {
				t = at.Load()
			}
		}
		if t.edition == edition {
			return t
		}
		at = &t.next
	}
}

// form is one encoded form. mu is held while it is made; data does not change once done is set.
type form struct {
	mu   sync.Mutex
	done atomic.Bool
	hot  atomic.Bool // used since the hand of the budget last passed
	data []byte

	home       *atomic.Pointer[form]
	prev, next *form // in the budget's ring; guarded by the budget's mutex
}

// formOverhead is the memory of a form besides its bytes.
const formOverhead = 160

func (fs *forms) get(edition uint32, slot int, build func() ([]byte, error)) ([]byte, error) {
	if fs.budget == nil {
		return build()
	}
	home := &fs.of(edition).slots[slot]
	f := home.Load()
	if f == nil {
		f = &form{home: home}
		if !home.CompareAndSwap(nil, f) {
			if f = home.Load(); f == nil { // another goroutine made it and it was dropped meanwhile
				return build()
			}
		}
	}
	return f.get(fs.budget, build)
}

func (f *form) get(b *formBudget, build func() ([]byte, error)) ([]byte, error) {
	if !f.done.Load() {
		made, err := f.fill(build)
		if err != nil {
			return nil, err
		}
		if made {
			b.add(f)
			return f.data, nil
		}
	}
	if !f.hot.Load() { // reading first keeps the cache line shared
		f.hot.Store(true)
	}
	return f.data, nil
}

// fill makes the form, unless another goroutine has made it meanwhile.
func (f *form) fill(build func() ([]byte, error)) (made bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.done.Load() {
		return false, nil
	}
	data, err := build()
	if err != nil {
		return false, err
	}
	f.data = data
	f.done.Store(true)
	return true, nil
}

// drop returns the memory of all forms to the budget. Callers that hold their bytes may keep them.
func (fs *forms) drop() {
	for table := fs.table.Load(); table != nil; table = table.next.Load() {
		for i := range table.slots {
			if f := table.slots[i].Load(); f != nil {
				fs.budget.remove(f)
			}
		}
	}
}

// formBudget bounds the bytes of all forms of a cache with the CLOCK algorithm: a hand goes round the forms. A form
// that was used since the hand last passed is spared once; the others are dropped.
type formBudget struct {
	limit int

	mu    sync.Mutex
	used  int
	count int
	hand  *form // the oldest; its prev is the newest
}

func (b *formBudget) add(f *form) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.linkLocked(f)
	for spared := 0; b.used > b.limit && b.hand != nil; {
		old := b.hand
		if old.hot.Load() && spared < b.count {
			old.hot.Store(false)
			b.hand = old.next
			spared++
			continue
		}
		b.unlinkLocked(old)
	}
}

func (b *formBudget) remove(f *form) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if f.next != nil {
		b.unlinkLocked(f)
	}
}

func (b *formBudget) linkLocked(f *form) {
	if b.hand == nil {
		f.prev, f.next, b.hand = f, f, f
	} else {
		f.prev, f.next = b.hand.prev, b.hand
		f.prev.next, f.next.prev = f, f
	}
	b.count++
	b.used += len(f.data) + formOverhead
}

func (b *formBudget) unlinkLocked(f *form) {
	if f.next == f {
		b.hand = nil
	} else {
		if b.hand == f {
			b.hand = f.next
		}
		f.prev.next, f.next.prev = f.next, f.prev
	}
	f.prev, f.next = nil, nil
	b.count--
	b.used -= len(f.data) + formOverhead
	f.home.CompareAndSwap(f, nil)
}

// dropUnused drops the forms that were not used since its last call. Forms that a burst of changes left behind are
// dropped; forms that lists use again stay. It holds the lock for a few forms at a time.
func (b *formBudget) dropUnused() {
	for left := b.len(); left > 0; left -= dropStep {
		b.mu.Lock()
		for range min(left, dropStep) {
			if b.hand == nil {
				break
			}
			if old := b.hand; old.hot.Swap(false) {
				b.hand = old.next
			} else {
				b.unlinkLocked(old)
			}
		}
		b.mu.Unlock()
	}
}

// dropStep is how many forms dropUnused checks while it holds the lock.
const dropStep = 256

func (b *formBudget) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.count
}

func (b *formBudget) usage() (bytes, count int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used, b.count
}
