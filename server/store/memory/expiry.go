package memory

import (
	"container/heap"
	"time"
)

// expiry knows when entries end. One timer, set to the nearest end, serves them all.
type expiry struct {
	ends  ends
	byKey map[string]*end
	timer *time.Timer
}

// end is the time at which a key expires.
type end struct {
	key   string
	at    time.Time
	place int // in the heap
}

// set gives a key a new time to live; without one it stays.
func (x *expiry) set(key string, ttl time.Duration, expire func()) {
	e := x.byKey[key]
	switch {
	case e == nil && ttl <= 0:
	case ttl <= 0:
		heap.Remove(&x.ends, e.place)
		delete(x.byKey, key)
	case e != nil:
		e.at = time.Now().Add(ttl)
		heap.Fix(&x.ends, e.place)
		x.arm(expire)
	default:
		if x.byKey == nil {
			x.byKey = make(map[string]*end)
		}
		e = &end{key: key, at: time.Now().Add(ttl)}
		x.byKey[key] = e
		heap.Push(&x.ends, e)
		x.arm(expire)
	}
}

// arm sets the timer to the nearest end. A timer that rings too early, because its end was moved, finds nothing due.
func (x *expiry) arm(expire func()) {
	if len(x.ends) == 0 {
		return
	}
	wait := time.Until(x.ends[0].at)
	if x.timer == nil {
		x.timer = time.AfterFunc(wait, expire)
	} else {
		x.timer.Reset(wait)
	}
}

// due gives a key that has ended.
func (x *expiry) due(now time.Time) (string, bool) {
	if len(x.ends) == 0 || x.ends[0].at.After(now) {
		return "", false
	}
	return x.ends[0].key, true
}

func (x *expiry) stop() {
	if x.timer != nil {
		x.timer.Stop()
	}
}

// expire deletes what has ended. The timer calls it.
func (s *Store) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	now := time.Now()
	for key, ok := s.expiry.due(now); ok; key, ok = s.expiry.due(now) {
		s.removeLocked(key)
	}
	s.expiry.arm(s.expire)
}

// ends is a heap by time.
type ends []*end

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i].at.Before(e[j].at) }
func (e ends) Swap(i, j int) {
	e[i], e[j] = e[j], e[i]
	e[i].place, e[j].place = i, j
}

func (e *ends) Push(x any) {
	last := x.(*end)
	last.place = len(*e)
	*e = append(*e, last)
}

func (e *ends) Pop() any {
	old := *e
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*e = old[:len(old)-1]
	return last
}
