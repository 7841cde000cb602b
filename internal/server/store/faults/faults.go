// Package faults makes a store fail on purpose, for tests.
//
// Wrap puts a layer around any store. Rules say which calls fail, hang or answer late; Cut ends watches, and Hold stops
// them from delivering. A store without rules behaves as the one inside. An injected error never hides an event or an
// acknowledged write.
package faults

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/server/store"
)

// Op is a set of calls of a store; join several with |.
type Op uint16

const (
	Create Op = 1 << iota
	Get
	List
	Update
	Delete
	Watch
	Revision
	Compact
	Size

	Writes = Create | Update | Delete
	Reads  = Get | List | Revision
	All    = Writes | Reads | Watch | Compact | Size
)

// Rule says what happens to some calls. A field that is zero restricts nothing and injects nothing.
type Rule struct {
	// Ops are the calls that the rule applies to; zero means all.
	Ops Op
	// Prefix is what the key, or the prefix of a list or watch, must begin with.
	Prefix string
	// Err is returned instead of the call's answer.
	Err error
	// Done says that the call takes effect before Err is returned, as when a connection is lost after the request was
	// received.
	Done bool
	// Delay is added before the call; if the call's context ends, so does the delay.
	Delay time.Duration
	// Gate blocks the call until it is closed, or until the call's context ends.
	Gate <-chan struct{}
	// Skip is how many calls pass before the rule applies. Times is to how many calls it then applies; zero means all.
	Skip, Times int
}

func (r *Rule) covers(op Op, key string) bool {
	return (r.Ops == 0 || r.Ops&op != 0) && strings.HasPrefix(key, r.Prefix)
}

// Store is a store that fails when it is told to.
type Store struct {
	inner store.Store

	// mu guards everything below.
	mu      sync.Mutex
	rules   []*Rule
	calls   map[Op]int
	watches map[*cutter]struct{}
	held    chan struct{} // closed when watches may deliver; nil if they are not held
}

var _ store.Store = (*Store)(nil)

// Wrap puts the layer around s. Closing it closes s.
func Wrap(s store.Store) *Store {
	return &Store{inner: s, calls: make(map[Op]int), watches: make(map[*cutter]struct{})}
}

// Inject adds a rule; the first rule that covers a call applies. The function that it returns removes the rule.
func (s *Store) Inject(r Rule) (remove func()) {
	rule := &r
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = append(s.rules, rule)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.rules = slices.DeleteFunc(s.rules, func(other *Rule) bool { return other == rule })
	}
}

// Fail makes the next n calls fail without effect.
func (s *Store) Fail(ops Op, err error, n int) { s.Inject(Rule{Ops: ops, Err: err, Times: n}) }

// Down makes the store unavailable: watches are cut and all calls fail, until up is called.
func (s *Store) Down() (up func()) {
	up = s.Inject(Rule{Err: store.ErrUnavailable})
	s.Cut(store.ErrUnavailable)
	return up
}

// Calls counts the calls so far, including those that were refused.
func (s *Store) Calls(ops Op) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for op, count := range s.calls {
		if op&ops != 0 {
			n += count
		}
	}
	return n
}

// apply finds the rule for a call, and delays or blocks it as the rule says. It returns the error to answer with, and
// whether the call must take effect first.
func (s *Store) apply(ctx context.Context, op Op, key string) (done bool, err error) {
	r := s.match(op, key)
	if r == nil {
		return true, nil
	}
	if r.Delay > 0 {
		timer := time.NewTimer(r.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	if r.Gate != nil {
		select {
		case <-r.Gate:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	return r.Done || r.Err == nil, r.Err
}

func (s *Store) match(op Op, key string) *Rule {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[op]++
	for i, r := range s.rules {
		if !r.covers(op, key) {
			continue
		}
		if r.Skip > 0 {
			r.Skip--
			continue
		}
		if r.Times > 0 {
			if r.Times--; r.Times == 0 {
				s.rules = slices.Delete(s.rules, i, i+1)
			}
		}
		return r
	}
	return nil
}

// do makes a call under the rules.
func do[T any](ctx context.Context, s *Store, op Op, key string, call func() (T, error)) (T, error) {
	var none T
	done, injected := s.apply(ctx, op, key)
	if !done {
		return none, injected
	}
	answer, err := call()
	if injected != nil {
		return none, injected
	}
	return answer, err
}
