package queue_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/randomly"

	"github.com/millrace/millrace/queue"
)

// model is a queue that is slow and obviously correct.
type model struct {
	now     time.Duration
	aging   time.Duration
	seq     int
	ready   map[string]request
	again   map[string]request
	delayed map[string]request
	working map[string]int // the priority it was taken with
}

type request struct {
	at       time.Duration
	priority int
	seq      int
}

func (m *model) add(key string, priority int) {
	pending := m.ready
	if _, busy := m.working[key]; busy {
		pending = m.again
	}
	if r, there := pending[key]; there {
		r.priority = max(r.priority, priority)
		pending[key] = r
		return
	}
	m.seq++
	pending[key] = request{m.now, priority, m.seq}
}

func (m *model) addAfter(key string, delay time.Duration) {
	priority := m.working[key]
	if delay <= 0 {
		m.add(key, priority)
		return
	}
	r, there := m.delayed[key]
	if due := m.now + delay; !there {
		m.seq++
		m.delayed[key] = request{due, priority, m.seq}
	} else if due < r.at {
		m.delayed[key] = request{due, max(priority, r.priority), r.seq}
	}
}

func (m *model) pass(d time.Duration) {
	for end := m.now + d; ; {
		key := first(m.delayed, func(r request) time.Duration { return r.at })
		if key == "" || m.delayed[key].at > end {
			m.now = end
			return
		}
		r := m.delayed[key]
		delete(m.delayed, key)
		m.now = r.at
		m.add(key, r.priority)
	}
}

func (m *model) get() string {
	key := first(m.ready, func(r request) time.Duration { return r.at - time.Duration(r.priority)*m.aging })
	m.working[key] = m.ready[key].priority
	delete(m.ready, key)
	return key
}

func (m *model) done(key string) {
	if _, busy := m.working[key]; !busy {
		return
	}
	delete(m.working, key)
	if r, there := m.again[key]; there {
		delete(m.again, key)
		m.seq++
		r.seq = m.seq
		m.ready[key] = r
	}
}

func first(requests map[string]request, rank func(request) time.Duration) (key string) {
	for k, r := range requests {
		if b := requests[key]; key == "" || rank(r) < rank(b) || rank(r) == rank(b) && r.seq < b.seq {
			key = k
		}
	}
	return key
}

func TestRandomOperationsMatchTheModel(t *testing.T) {
	first := randomly.Seed(t)
	for seed := first; seed < first+200; seed++ {
		synctest.Test(t, func(t *testing.T) { compareWithModel(t, seed) })
	}
}

func compareWithModel(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 0))
	aging := time.Duration(1+random.IntN(5)) * time.Millisecond
	q := newQueue(queue.Options[string]{Aging: aging})
	m := &model{aging: aging, ready: map[string]request{}, again: map[string]request{},
		delayed: map[string]request{}, working: map[string]int{}}
	for step := range 400 {
		key := fmt.Sprint("k", random.IntN(12))
		switch random.IntN(6) {
		case 0:
			priority := random.IntN(9) - 4
			q.AddPriority(key, priority)
			m.add(key, priority)
		case 1:
			delay := time.Duration(random.IntN(20)) * time.Millisecond
			q.AddAfter(key, delay)
			m.addAfter(key, delay)
		case 2:
			d := time.Duration(random.IntN(8)) * time.Millisecond
			time.Sleep(d)
			synctest.Wait()
			m.pass(d)
		case 3:
			q.Done(key)
			m.done(key)
		default:
			if len(m.ready) == 0 {
				break
			}
			if got, want := take(t, q), m.get(); got != want {
				t.Fatalf("seed %d, step %d: the queue gave %q, the model %q", seed, step, got, want)
			}
		}
		s := q.State()
		if s.Ready != len(m.ready) || s.Delayed != len(m.delayed) || s.Working != len(m.working) {
			t.Fatalf("seed %d, step %d: the queue holds %+v, the model %d ready, %d delayed, %d working",
				seed, step, s, len(m.ready), len(m.delayed), len(m.working))
		}
	}
	q.ShutDown()
}
