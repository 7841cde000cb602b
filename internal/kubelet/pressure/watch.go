package pressure

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Shortage is a signal that is below its threshold.
type Shortage struct {
	Signal    Signal
	Least     uint64
	Available uint64
	Soft      bool
}

// Limits are when a node is short of something, and when pods must go because of that.
type Limits struct {
	Hard Thresholds
	// Soft are thresholds that must have been crossed for a while, their Grace, before pods are evicted.
	Soft  Thresholds
	Grace map[Signal]time.Duration
	// Reclaim is how much more than the threshold must be available before a shortage ends that pods were evicted for.
	Reclaim Thresholds
}

// SetGrace reads the grace periods of the soft thresholds, of which each must have one.
func (l *Limits) SetGrace(words map[string]string) error {
	l.Grace = map[Signal]time.Duration{}
	for name, text := range words {
		period, err := time.ParseDuration(text)
		if err != nil {
			return err
		}
		if period < 0 {
			return fmt.Errorf("invalid eviction grace period specified: %v, must be a positive value", text)
		}
		l.Grace[Signal(name)] = period
	}
	for _, signal := range slices.Sorted(maps.Keys(l.Soft)) {
		if _, ok := l.Grace[signal]; !ok {
			return fmt.Errorf("grace period must be specified for the soft eviction threshold %v", signal)
		}
	}
	return nil
}

// GraceWords formats the grace periods as SetGrace reads them.
func (l *Limits) GraceWords() map[string]string {
	words := map[string]string{}
	for signal, period := range l.Grace {
		words[string(signal)] = period.String()
	}
	return words
}

// Watch remembers since when a node is short of something. Limits must not change.
type Watch struct {
	Limits

	mu    sync.Mutex // guards what follows
	since map[crossing]time.Time
	acted map[crossing]bool // pods were to be evicted because of it
}

// crossing is a threshold that was crossed.
type crossing struct {
	signal Signal
	soft   bool
}

// Check returns all shortages, and those because of which a pod must go now, memory first. It ignores signals without a
// level.
func (w *Watch) Check(levels map[Signal]Level, now time.Time) (all, due []Shortage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since == nil {
		w.since, w.acted = map[crossing]time.Time{}, map[crossing]bool{}
	}
	for _, soft := range []bool{false, true} {
		thresholds := w.Hard
		if soft {
			thresholds = w.Soft
		}
		for signal, threshold := range thresholds {
			level, ok := levels[signal]
			if !ok {
				continue
			}
			s := Shortage{Signal: signal, Least: threshold.least(level.Capacity), Available: level.Available, Soft: soft}
			short, now := w.crossedLocked(&s, level.Capacity, now)
			if short {
				all = append(all, s)
			}
			if now {
				due = append(due, s)
			}
		}
	}
	slices.SortFunc(all, order)
	slices.SortFunc(due, order)
	return all, due
}

// crossedLocked notes whether there is a shortage, and reports whether there is and whether something must be done
// about it.
func (w *Watch) crossedLocked(s *Shortage, capacity uint64, now time.Time) (short, due bool) {
	at := crossing{s.Signal, s.Soft}
	enough := s.Least
	if w.acted[at] {
		enough += w.Reclaim[s.Signal].least(capacity)
	}
	if s.Available >= enough {
		delete(w.since, at)
		delete(w.acted, at)
		return false, false
	}
	since, ok := w.since[at]
	if !ok {
		since = now
		w.since[at] = now
	}
	if s.Soft && now.Sub(since) < w.Grace[s.Signal] {
		return true, false
	}
	w.acted[at] = true
	return true, true
}

// order puts memory first, and hard thresholds before soft ones.
func order(a, b Shortage) int {
	return cmp.Or(rank(a.Signal)-rank(b.Signal), cmp.Compare(a.Signal, b.Signal), boolean(a.Soft)-boolean(b.Soft))
}

func rank(s Signal) int {
	if s == Memory {
		return 0
	}
	return 1
}
