package custom

import (
	"context"
	"time"

	"github.com/millrace/millrace/internal/sleep"
)

// restEvery is how often schemas are looked at: one that was not used between two looks is dropped.
const restEvery = 10 * time.Minute

// rest drops the compiled schemas that nobody uses, until ctx ends.
func (d *Definitions) rest(ctx context.Context) {
	for sleep.For(ctx, restEvery) {
		d.restOnce()
	}
}

func (d *Definitions) restOnce() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.known {
		if r.served == nil {
			continue
		}
		for _, v := range r.served.versions {
			v.schema.Rest()
		}
	}
}
