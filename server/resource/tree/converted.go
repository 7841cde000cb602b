package tree

import (
	"container/list"
	"context"
	"crypto/sha256"
	"sync"

	"github.com/millrace/millrace/server/resource"
)

// Converted keeps what objects look like in versions that they are not stored in, so that each is converted once for each version and
// content. It may be shared by the representations of many kinds, and drops what was not asked for the longest.
type Converted struct {
	limit int

	mu     sync.Mutex // guards what follows
	known  map[convertedKey]*converted
	recent list.List // of those that are done; the last asked for first
	used   int
}

// NewConverted makes one that keeps so many bytes.
func NewConverted(limit int) *Converted {
	return &Converted{limit: limit, known: map[convertedKey]*converted{}}
}

// convertedKey names an object by its content, in a version whose meaning an edition of a kind stands for.
type convertedKey struct {
	of      *resource.Identity
	edition uint32
	content [sha256.Size]byte
}

// converted is an object in another version. What stands in it does not change once done is closed.
type converted struct {
	key  convertedKey
	done chan struct{}
	text []byte // JSON
	err  error
	at   *list.Element // guarded by the mutex of all
}

// convertedOverhead is what an entry costs besides its bytes.
const convertedOverhead = 320

// claim finds what is known of some objects. Those that nobody has begun to convert are the caller's, who has to finish them.
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

// finish says what an object was converted to. An error is told to all who wait, and not kept.
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
