package tree

import (
	"container/list"
	"context"
	"crypto/sha256"
	"sync"

	"github.com/millrace/millrace/internal/server/resource"
)

// Converted caches objects in versions in which they are not stored, so that each content is converted only once to
// each version. Representations of many kinds may share it. It drops the least recently used objects.
type Converted struct {
	limit int

	mu     sync.Mutex // guards everything below
	known  map[convertedKey]*converted
	recent list.List // the finished ones; the most recently used is first
	used   int
}

// NewConverted makes a cache of limit bytes.
func NewConverted(limit int) *Converted {
	return &Converted{limit: limit, known: map[convertedKey]*converted{}}
}

// convertedKey identifies an object by its content, and the target version by an edition of its kind.
type convertedKey struct {
	of      *resource.Identity
	edition uint32
	content [sha256.Size]byte
}

// converted is an object in another version. It does not change once done is closed.
type converted struct {
	key  convertedKey
	done chan struct{}
	text []byte // JSON
	err  error
	at   *list.Element // guarded by the mutex of Converted
}

// convertedOverhead is the memory of an entry besides its bytes.
const convertedOverhead = 320

// claim returns the entries of some objects. The caller must convert and finish those in mine, which no caller has
// started before.
func (c *Converted) claim(keys []convertedKey) (all []*converted, mine []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all = make([]*converted, len(keys))
	for i, k := range keys {
		e := c.known[k]
		switch {
		case e == nil:
			e = &converted{key: k, done: make(chan struct{})}
			c.known[k] = e
			mine = append(mine, i)
		case e.at != nil:
			c.recent.MoveToFront(e.at)
		}
		all[i] = e
	}
	return all, mine
}

// finish stores the result of a conversion. An error is passed to all that wait, and is not cached.
func (c *Converted) finish(e *converted, text []byte, err error) {
	e.text, e.err = text, err
	close(e.done)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		delete(c.known, e.key)
		return
	}
	e.at = c.recent.PushFront(e)
	c.used += len(text) + convertedOverhead
	for c.used > c.limit && c.recent.Len() > 1 {
		old := c.recent.Remove(c.recent.Back()).(*converted)
		c.used -= len(old.text) + convertedOverhead
		delete(c.known, old.key)
	}
}

// wait returns the object in the other version.
func (e *converted) wait(ctx context.Context) ([]byte, error) {
	select {
	case <-e.done:
		return e.text, e.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
