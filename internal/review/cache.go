package review

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"
)

// Key is a question, by its hash.
type Key [sha256.Size]byte

// mostAnswers bounds the answers that are kept. When there is no room, any other goes.
const mostAnswers = 8192

// Cache keeps answers for some time.
type Cache[T any] struct {
	mu      sync.Mutex // guards what follows
	answers map[Key]kept[T]
	asking  map[Key]*question[T]
}

type kept[T any] struct {
	answer T
	until  time.Time
}

// question is one that is being asked.
type question[T any] struct {
	done   chan struct{}
	answer T
	err    error
}

// Kept is the answer to a question, if it is kept.
func (c *Cache[T]) Kept(k Key) (answer T, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.answers[k]
	if !ok || !time.Now().Before(a.until) {
		return answer, false
	}
	return a.answer, true
}

// Get is the answer to a question: a kept one, or what ask says and how long to keep it. Errors are not kept.
func (c *Cache[T]) Get(ctx context.Context, k Key, ask func(context.Context) (T, time.Duration, error)) (T, error) {
	c.mu.Lock()
	if a, ok := c.answers[k]; ok {
		if time.Now().Before(a.until) {
			c.mu.Unlock()
			return a.answer, nil
		}
		delete(c.answers, k)
	}
	q, under := c.asking[k]
	if !under {
		q = &question[T]{done: make(chan struct{})}
		if c.asking == nil {
			c.answers, c.asking = map[Key]kept[T]{}, map[Key]*question[T]{}
		}
		c.asking[k] = q
	}
	c.mu.Unlock()
	if !under {
		// Others may wait for the answer when who asked first has gone.
		c.answer(k, q, func() (T, time.Duration, error) { return ask(context.WithoutCancel(ctx)) })
		return q.answer, q.err
	}
	select {
	case <-q.done:
		return q.answer, q.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

func (c *Cache[T]) answer(k Key, q *question[T], ask func() (T, time.Duration, error)) {
	var keep time.Duration
	q.answer, keep, q.err = ask()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.asking, k)
	close(q.done)
	if q.err != nil || keep <= 0 {
		return
	}
	for other := range c.answers {
		if len(c.answers) < mostAnswers {
			break
		}
		delete(c.answers, other)
	}
	c.answers[k] = kept[T]{q.answer, time.Now().Add(keep)}
}
