package guarantees_test

import (
	"context"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/faults"
)

// injectFaults injects all kinds of faults.
func (w *world) injectFaults(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		switch w.random.IntN(12) {
		case 0:
			w.faults.Cut(store.ErrUnavailable)
		case 1:
			w.faults.Fail(faults.Writes, store.ErrUnavailable, 1+w.random.IntN(3))
		case 2: // the answer is lost, the write is not
			w.faults.Inject(faults.Rule{Ops: faults.Writes, Err: store.ErrUnavailable, Done: true, Times: 1 + w.random.IntN(3)})
		case 3:
			w.faults.Fail(faults.Reads, store.ErrUnavailable, 1+w.random.IntN(3))
		case 4:
			time.AfterFunc(time.Duration(w.random.IntN(20))*time.Millisecond, w.faults.Hold())
		case 5:
			w.faults.Inject(faults.Rule{Ops: faults.Writes, Delay: 2 * time.Millisecond, Times: 5})
		case 6, 7:
			w.compact(ctx, store.Revision(w.random.IntN(100)))
		case 8: // the log cannot be resumed
			release := w.faults.Hold()
			time.Sleep(time.Duration(w.random.IntN(20)) * time.Millisecond)
			w.faults.Cut(store.ErrUnavailable)
			release()
		case 9, 10:
			w.network.Cut(func() bool { return w.random.IntN(3) == 0 })
		case 11:
			if w.options.Data != "" && w.random.IntN(4) == 0 {
				w.restart()
			}
		}
		pause.Reset(time.Duration(20+w.random.IntN(60)) * time.Millisecond)
	}
}

// compact compacts revisions that are older than age, but none that the log has not delivered yet.
func (w *world) compact(ctx context.Context, age store.Revision) {
	rev := w.truth.at() - age
	if rev < 1 {
		return
	}
	if w.faults.Compact(ctx, rev) == nil {
		w.compactions++
	}
}

func (w *world) restart() {
	w.network.Refuse(true)
	if w.random.IntN(2) == 0 {
		w.network.Cut(func() bool { return true })
	}
	w.stop()
	w.start()
	w.network.Redirect(strings.TrimPrefix(w.cluster.URL(), "https://"))
	w.network.Refuse(false)
	w.restarts++
}
