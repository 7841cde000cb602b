package limit

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/bench/internal/stats"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/journal"
)

// PutOrder describes what is written into the log.
type PutOrder struct {
	Workers int
	Bytes   int
	For     time.Duration
	// Update writes the same key of each worker again, not new keys.
	Update bool
}

// PutResult is the measurement.
type PutResult struct {
	Count    int
	Took     time.Duration
	P50, P99 time.Duration
}

// puts is the log of a cluster on one machine, without a server. It syncs writes to disk as usual.
type puts struct {
	store *journal.Store
	runs  atomic.Int64
}

func openPuts(dir string) (*puts, error) {
	s, err := journal.Open(journal.Options{Dir: dir})
	if err != nil {
		return nil, err
	}
	return &puts{store: s}, nil
}

// Close stops it.
func (p *puts) Close() { p.store.Close() }

const maxPuts = 2_000_000

func (p *puts) run(ctx context.Context, o PutOrder) (PutResult, error) {
	run := p.runs.Add(1)
	value := bytes.Repeat([]byte("0123456789abcdef"), o.Bytes/16+1)[:o.Bytes]
	began := time.Now()
	var failed atomic.Pointer[error]
	took := make([][]time.Duration, o.Workers)
	var workers sync.WaitGroup
	for w := range o.Workers {
		workers.Go(func() {
			var rev store.Revision
			for i := 0; i < maxPuts/o.Workers && time.Since(began) < o.For; i++ {
				var err error
				start := time.Now()
				if o.Update && i > 0 {
					rev, err = p.store.Update(ctx, fmt.Sprintf("/registry/pods/default/%d-%d", run, w), value, rev, 0)
				} else if o.Update {
					rev, err = p.store.Create(ctx, fmt.Sprintf("/registry/pods/default/%d-%d", run, w), value, 0)
				} else {
					_, err = p.store.Create(ctx, fmt.Sprintf("/registry/pods/default/%d-%d-%d", run, w, i), value, 0)
				}
				if err != nil {
					failed.Store(&err)
					return
				}
				took[w] = append(took[w], time.Since(start))
			}
		})
	}
	workers.Wait()
	if err := failed.Load(); err != nil {
		return PutResult{}, *err
	}
	r := PutResult{Took: time.Since(began)}
	var all []time.Duration
	for _, t := range took {
		all = append(all, t...)
	}
	p50 := stats.Percentiles(all, 50, 99)
	r.Count, r.P50, r.P99 = len(all), p50[0], p50[1]
	return r, nil
}
