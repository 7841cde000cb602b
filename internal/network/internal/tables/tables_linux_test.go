package tables_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/network/internal/tables"
)

// registration records whether it was closed.
type registration struct{ closed chan struct{} }

func (r registration) Close()                { close(r.closed) }
func (r registration) Done() <-chan struct{} { return r.closed }

func TestTablesAreWrittenAgainAfterPausesThatGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		started, failures := time.Now(), 0
		w := tables.New(tables.Options{
			Name: "a test", Check: time.Hour, Modified: func() bool { return false }, Failed: func() { failures++ },
			Sync: func() error {
				at = append(at, time.Since(started))
				if len(at) < 4 {
					return errors.New("the kernel is busy")
				}
				return nil
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		r := registration{make(chan struct{})}
		ended := make(chan error)
		go func() { ended <- w.Run(ctx, []tables.Registration{r}) }()
		<-w.Ready()
		want := []time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond, 700 * time.Millisecond}
		for i := range want {
			if at[i] != want[i] {
				t.Errorf("attempt %d came after %v, want %v", i, at[i], want[i])
			}
		}
		if len(at) != 4 || failures != 3 {
			t.Errorf("%d attempts and %d failures, want 4 and 3", len(at), failures)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		<-r.closed
	})
}

func TestTablesAreWrittenOnceForManyNewsAndWhenSomebodyElseChangedThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var writes atomic.Int32
		var foreign atomic.Bool
		w := tables.New(tables.Options{
			Name: "a test", Check: time.Minute, Modified: foreign.Load, Failed: func() {},
			Sync: func() error { writes.Add(1); return nil },
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.Run(ctx, nil) }()
		synctest.Wait()
		for range 100 {
			w.Trigger()
		}
		synctest.Wait()
		before := writes.Load()
		if before < 2 || before > 3 {
			t.Errorf("%d writes after a hundred news, want one or two besides the first", before)
		}
		time.Sleep(90 * time.Second)
		synctest.Wait()
		if writes.Load() != before {
			t.Error("tables that nobody has changed were written")
		}
		foreign.Store(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := writes.Load() - before; n != 1 {
			t.Errorf("%d writes after somebody else changed the tables, want one", n)
		}
		cancel()
		<-ended
	})
}
