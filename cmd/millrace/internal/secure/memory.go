package secure

import (
	"crypto/sha256"
	"errors"
	"sync"
	"time"
)

const (
	remembered = 10 * time.Second // by default
	maxKept    = 4096
)

// memory caches results by the hash of the request. Errors are not cached; refusals are. How long is up to the one who
// asks.
type memory[T any] struct {
	mu   sync.Mutex // guards kept
	kept map[[sha256.Size]byte]remembrance[T]
}

type remembrance[T any] struct {
	value T
	err   error
	until time.Time
}

func (m *memory[T]) get(now time.Time, at [sha256.Size]byte, keep func(T) time.Duration, ask func() (T, error)) (T, error) {
	m.mu.Lock()
	known, ok := m.kept[at]
	m.mu.Unlock()
	if ok && now.Before(known.until) {
		return known.value, known.err
	}
	value, err := ask()
	if err != nil && !errors.Is(err, errUnauthorized) {
		return value, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept == nil || len(m.kept) >= maxKept {
		m.kept = map[[sha256.Size]byte]remembrance[T]{}
	}
	m.kept[at] = remembrance[T]{value, err, now.Add(keep(value))}
	return value, err
}
