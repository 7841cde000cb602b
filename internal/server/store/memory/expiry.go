package memory

import (
	"container/heap"
	"time"
)

// expiry holds when entries expire. One timer, set to the earliest end, serves all of them.
type expiry struct {
	expiryHeap expiryHeap
	byKey      map[string]*expiryEntry
	timer      *time.Timer
}

// expiryEntry is the time at which a key expires.
type expiryEntry struct {
	key   string
	at    time.Time
	place int // index in the heap
}

// set gives a key a new time to live; zero means that it does not expire.
func (x *expiry) set(key string, ttl time.Duration, expire func()) {
	e := x.byKey[key]
	switch {
	case e == nil && ttl <= 0:
	case ttl <= 0:
		heap.Remove(&x.expiryHeap, e.place)
		delete(x.byKey, key)
	case e != nil:
		e.at = time.Now().Add(ttl)
		heap.Fix(&x.expiryHeap, e.place)
		x.arm(expire)
	default:
		if x.byKey == nil {
			x.byKey = make(map[string]*expiryEntry)
		}
		e = &expiryEntry{key: key, at: time.Now().Add(ttl)}
		x.byKey[key] = e
		heap.Push(&x.expiryHeap, e)
		x.arm(expire)
	}
}

// arm sets the timer to the earliest end. If that end moves later, the timer fires too early and finds nothing due.
func (x *expiry) arm(expire func()) {
	if len(x.expiryHeap) == 0 {
		return
	}
	wait := time.Until(x.expiryHeap[0].at)
	if x.timer == nil {
		x.timer = time.AfterFunc(wait, expire)
	} else {
		x.timer.Reset(wait)
	}
}

// due removes and returns a key that has expired.
func (x *expiry) due(now time.Time) (string, bool) {
	if len(x.expiryHeap) == 0 || x.expiryHeap[0].at.After(now) {
		return "", false
	}
	return x.expiryHeap[0].key, true
}

func (x *expiry) stop() {
	if x.timer != nil {
		x.timer.Stop()
	}
}

// expireAgain is after how long Options.Expired is called again if the entry is still there.
const expireAgain = 10 * time.Second

// expire deletes the expired entries, or tells who does. The timer calls it.
func (s *Store) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	now := time.Now()
	for key, ok := s.expiry.due(now); ok; key, ok = s.expiry.due(now) {
		if s.options.Expired == nil {
			s.removeLocked(key)
			continue
		}
		s.expiry.set(key, expireAgain, s.expire)
		i, _ := s.present.Get(key)
		s.options.Expired(key, i.rev)
	}
	s.expiry.arm(s.expire)
}

// expiryHeap is a heap by time.
type expiryHeap []*expiryEntry

func (e expiryHeap) Len() int           { return len(e) }
func (e expiryHeap) Less(i, j int) bool { return e[i].at.Before(e[j].at) }
func (e expiryHeap) Swap(i, j int) {
	e[i], e[j] = e[j], e[i]
	e[i].place, e[j].place = i, j
}

func (e *expiryHeap) Push(x any) {
	last := x.(*expiryEntry)
	last.place = len(*e)
	*e = append(*e, last)
}

func (e *expiryHeap) Pop() any {
	old := *e
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*e = old[:len(old)-1]
	return last
}
