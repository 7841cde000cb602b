// Package pace computes how long a loop waits for more changes before it syncs an object with many pods.
package pace

import (
	"sync"
	"time"

	"github.com/millrace/millrace/loop"
)

// Pace is proportional to the number of an object's pods, because the cost of a sync is. Objects with few pods are
// synced at once. The zero value is ready for use.
type Pace struct{ sizes sync.Map }

const (
	each = 20 * time.Microsecond
	most = 100 * time.Millisecond
	few  = 50
)

// Set stores how many pods an object has.
func (p *Pace) Set(key loop.Key, pods int) { p.sizes.Store(key, pods) }

// Forget drops an object that is gone.
func (p *Pace) Forget(key loop.Key) { p.sizes.Delete(key) }

// Of returns how long to wait after a change.
func (p *Pace) Of(key loop.Key) time.Duration {
	pods, _ := p.sizes.Load(key)
	n, _ := pods.(int)
	if n < few {
		return 0
	}
	return min(time.Duration(n)*each, most)
}
