package planes

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// fake is a cluster that does nothing.
type fake struct {
	http.Handler
	ended *atomic.Int32
	lost  chan error

	mu    sync.Mutex // guards what follows
	due   time.Time
	works bool
}

func (f *fake) set(works bool, due time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.works, f.due = works, due
}

func (f *fake) Rest() (rests bool, due time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.works, f.due
}

func (f *fake) Transport() http.RoundTripper                        { return nil }
func (f *fake) Knows(*http.Request) bool                            { return true }
func (f *fake) Administrator() (certificate, key []byte)            { return nil, nil }
func (f *fake) Use(context.Context) (objects int, bytes int64)      { return 0, 0 }
func (f *fake) Fork(context.Context, string, string) (int64, error) { return 0, nil }
func (f *fake) Failed() <-chan error                                { return f.lost }
func (f *fake) Close() error                                        { time.Sleep(time.Second); f.ended.Add(1); return nil }
func starting(t *testing.T, begin func() (Cluster, error)) (*plane, *Planes) {
	p := &plane{
		directory: t.TempDir(), settings: Settings{SleepAfter: time.Minute}, changes: func() {},
		start: func(context.Context, string, Settings) (Cluster, error) { time.Sleep(time.Second); return begin() },
	}
	all := New(Options{Logger: slog.New(slog.DiscardHandler)})
	all.rows["1"] = p
	return p, all
}

func TestThoseWhoWaitForAStartThatFailsAreToldOfThatOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		starts := 0
		p, _ := starting(t, func() (Cluster, error) { starts++; return nil, errors.New("no") })
		var waiting sync.WaitGroup
		for range 20 {
			waiting.Go(func() {
				if _, err := p.acquire(t.Context()); err == nil {
					t.Error("a plane that cannot be started was started")
				}
			})
		}
		waiting.Wait()
		if starts != 1 {
			t.Errorf("it was started %d times", starts)
		}
		if _, err := p.acquire(t.Context()); err == nil || starts != 2 {
			t.Errorf("a later request does not try again: %d starts, %v", starts, err)
		}
	})
}

func TestACallerWhoGoesAwayDoesNotEndTheStartOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := &atomic.Int32{}
		p, _ := starting(t, func() (Cluster, error) { return &fake{ended: ended}, nil })
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, _ = p.acquire(ctx) }()
		synctest.Wait()
		cancel()
		if _, err := p.acquire(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestAPlaneSleepsWhenNobodyUsesItAndNothingIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := &atomic.Int32{}
		cluster := &fake{ended: ended, works: true}
		p, all := starting(t, func() (Cluster, error) { return cluster, nil })
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = all.Run(ctx) })
		if _, err := p.acquire(ctx); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		awake := func(want bool, why string) {
			t.Helper()
			synctest.Wait()
			if got := !p.sleeps(); got != want {
				t.Errorf("%s: awake is %v", why, got)
			}
		}
		awake(true, "somebody uses it")
		p.release()
		time.Sleep(time.Hour)
		awake(true, "a loop works")
		cluster.set(false, time.Now().Add(10*time.Second))
		time.Sleep(9 * time.Second)
		awake(true, "something is due soon")
		cluster.set(false, time.Now().Add(time.Hour))
		time.Sleep(10 * time.Second)
		awake(false, "nobody uses it")
		time.Sleep(time.Hour - 30*time.Second)
		awake(false, "nothing is due yet")
		time.Sleep(30 * time.Second)
		awake(true, "something is due")
		cluster.set(false, time.Time{})
		time.Sleep(2 * time.Minute)
		awake(false, "nothing was due")
		cancel()
		running.Wait()
		if err := all.Close(); err != nil || ended.Load() != 2 {
			t.Errorf("it was closed %d times, %v", ended.Load(), err)
		}
	})
}

func TestARequestWhileAPlaneIsClosedWaitsAndWakesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := &atomic.Int32{}
		p, all := starting(t, func() (Cluster, error) { return &fake{ended: ended}, nil })
		for range 2 {
			if _, err := p.acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.release()
			go func() { _, _ = p.sleep() }()
			synctest.Wait() // it is being closed
		}
		if _, err := p.acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := all.Close(); err != nil || ended.Load() != 3 {
			t.Errorf("it was closed %d times, %v", ended.Load(), err)
		}
		if _, err := p.acquire(t.Context()); !errors.Is(err, errGone) {
			t.Errorf("after the end: %v", err)
		}
	})
}

func TestAPlaneThatEndsByItselfIsStartedAgainByTheNextRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended, lost := &atomic.Int32{}, make(chan error, 1)
		p, all := starting(t, func() (Cluster, error) { return &fake{ended: ended, lost: lost}, nil })
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = all.Run(ctx) })
		if _, err := p.acquire(ctx); err != nil {
			t.Fatal(err)
		}
		lost <- errors.New("the disk has failed")
		time.Sleep(5 * time.Second)
		if phase, _, failure := p.phase(); phase != Failed || failure == nil || ended.Load() != 1 {
			t.Errorf("it is %s, %v, and was closed %d times", phase, failure, ended.Load())
		}
		p.release()
		if _, err := p.acquire(ctx); err != nil {
			t.Error(err)
		}
		cancel()
		running.Wait()
		if err := all.Close(); err != nil {
			t.Error(err)
		}
	})
}

// asking is a cluster that knows whoever asks, and takes an hour to answer.
type asking struct{ *fake }

func (asking) ServeHTTP(http.ResponseWriter, *http.Request) { time.Sleep(time.Hour) }

func TestALongRequestCountsWhenItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := starting(t, func() (Cluster, error) { return asking{&fake{ended: &atomic.Int32{}}}, nil })
		if _, err := p.acquire(t.Context()); err != nil { // a moment ago somebody has asked
			t.Fatal(err)
		}
		p.release()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://host/clusters/red/api", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.serve(nil, r, "/api"); err != nil {
			t.Fatal(err)
		}
		if p.idle(time.Now()) {
			t.Error("right after a long watch the plane may sleep")
		}
	})
}
