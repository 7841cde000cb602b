// Package pace says how long a loop gathers changes before it looks at everything that an object keeps.
package pace

import (
	"sync"
	"time"

	"github.com/millrace/millrace/loop"
)

// Pace is in proportion to the number of pods that an object keeps, since one look at them all costs as much. Objects with few
// pods are looked at at once. The zero value is ready for use.
type Pace struct{ sizes sync.Map }

const (
	each = 20 * time.Microsecond
	most = 100 * time.Millisecond
	few  = 50
)

// Set notes how many pods an object keeps.
func (p *Pace) Set(key loop.Key, pods int) { p.sizes.Store(key, pods) }

// Forget drops an object that is gone.
func (p *Pace) Forget(key loop.Key) { p.sizes.Delete(key) }

// Of is how long to wait after a change.
func (p *Pace) Of(key loop.Key) time.Duration {
	pods, _ := p.sizes.Load(key)
	n, _ := pods.(int)
	if n < few {
		return 0
	}
	return min(time.Duration(n)*each, most)
}
