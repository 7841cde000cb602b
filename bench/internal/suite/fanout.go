package suite

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/bench/internal/h2"
	"github.com/millrace/millrace/bench/internal/objects"
)

func fanOutCases() []Case {
	var out []Case
	for _, watchers := range []int{1, 10, 100, 1000, 10_000} {
		for _, size := range []int{200, 1 << 10, 6 << 10} {
			for _, packed := range []bool{false, true} {
				f := fanOut{watchers: watchers, size: size, packed: packed}
				quick := watchers == 1000 && (size == 6<<10 || !packed) || watchers == 10 && size == 1<<10 && !packed
				c := Case{Name: "fanout/" + f.String(), Op: "delivery", Quick: quick, Fixture: "watches", Run: f.run, Limit: f.run}
				switch { // the most important cases have the most rounds, to keep the whole suite short
				case watchers == 10_000:
					c.MostRounds = 1
				case watchers != 1000:
					c.MostRounds = 2
				}
				out = append(out, c)
			}
		}
	}
	for _, watchers := range []int{10, 100, 1000} {
		for _, rate := range []int{20, 100, 500} {
			f := fanOut{watchers: watchers, size: 1 << 10, rate: rate}
			out = append(out, Case{
				Name: fmt.Sprintf("latency/%d/%dps", watchers, rate), Op: "delivery", Quick: rate == 20 && watchers != 100,
				Fixture: "watches", MostRounds: 2, Run: f.run, Limit: f.run,
			})
		}
	}
	unlike := fanOut{watchers: 1000, size: 6 << 10, packed: true, unlike: true}
	out = append(out, Case{Name: "fanout/unlike/1000/6KB/gzip", Op: "delivery", Fixture: "watches", Run: unlike.run, Limit: unlike.run})
	slow := fanOut{watchers: 100, size: 6 << 10, slow: 10}
	return append(out, Case{Name: "slow/10of100/6KB", Op: "delivery", Quick: true, Fixture: "watches", Run: slow.run, Limit: slow.run})
}

// fanOut is a number of watchers that all receive the same events.
type fanOut struct {
	watchers, size int
	packed         bool
	custom         bool // custom objects, not config maps
	unlike         bool // every writer's object has a different text; otherwise they are as similar as pods of one deployment
	rate           int  // events per second; zero: as fast as possible
	slow           int  // how many read nothing until the others have received everything
}

func (f fanOut) String() string {
	size := fmt.Sprintf("%dB", f.size)
	if f.size >= 1<<10 {
		size = fmt.Sprintf("%dKB", f.size>>10)
	}
	encoding := "plain"
	if f.packed {
		encoding = "gzip"
	}
	return fmt.Sprintf("%d/%s/%s", f.watchers, size, encoding)
}

// percentile is the minimum number of events per second with a rate, because a percentile of few events means nothing.
const percentile = 130

// writers is the number of concurrent writers. Each writes its own object.
const writers = 8

// events returns the number of events.
func (f fanOut) events(s Scale) int {
	if f.rate > 0 {
		return max(10, int(float64(max(f.rate, percentile))*s.For.Seconds()))
	}
	return min(max(s.Deliveries/f.watchers, 20), 3000)
}

func (f fanOut) run(ctx context.Context, b *Bench) error {
	w, err := f.newWriter(ctx, b)
	if err != nil {
		return err
	}
	defer w.close()
	events := f.events(b.Scale)
	var sent *clock
	if f.rate > 0 {
		sent = newClock(events)
	}
	k := &watchGroup{}
	defer k.close()
	release := make(chan struct{})
	releaseAll := sync.OnceFunc(func() { close(release) })
	defer releaseAll()
	for i := range f.watchers {
		one := newFollower(events, nil, &k.total)
		one.sent = sent
		if i >= f.watchers-f.slow {
			one.startReading = release
		}
		k.followers = append(k.followers, one)
	}
	header := acceptJSON
	if f.packed {
		header = acceptGzip
	}
	if err := b.open(ctx, k, func(int) string {
		return w.path + "?watch=true&resourceVersion=" + w.version + "&timeoutSeconds=600"
	}, header); err != nil {
		return err
	}
	if err := b.Begin(ctx); err != nil {
		return err
	}
	if err := w.write(ctx, events, f.rate, sent); err != nil {
		b.profiling.Wait()
		return err
	}
	last := k.wait(ctx, k.followers[:f.watchers-f.slow])
	if f.slow > 0 {
		b.Own("fast ones done, s", last.Sub(b.began).Seconds())
		releaseAll()
		last = k.wait(ctx, k.followers)
	}
	if err := b.End(int(k.total.Load())); err != nil {
		return err
	}
	b.sample.Took = last.Sub(b.began)
	k.close()
	k.countEvents(b)
	return nil
}

// writer writes events: updates of config maps or of custom objects.
type writer struct {
	path    string
	send    h2.Request // how an update is sent
	conns   []*h2.Conn
	close   func()
	bodies  []objects.Template
	names   []string
	version string // before the first event
	base    string // the version that updates name
}

// warmUpMarker is a marker that no event has.
const warmUpMarker = 99_999_999

func (f fanOut) newWriter(ctx context.Context, b *Bench) (*writer, error) {
	w := &writer{version: "0", base: "0", path: configMaps, send: h2.Request{Method: "PUT", Header: sendJSON}}
	body := objects.ConfigMap
	if f.custom { // these are not updated without a version
		w.base, w.path, w.send = "", objects.Things(0), h2.Request{Method: "PATCH", Header: sendMerge}
		body = func(size, _ int) objects.Template { return objects.Thing(0, size) }
	}
	for i := range writers {
		seed := 0
		if f.unlike {
			seed = i
		}
		w.bodies = append(w.bodies, body(f.size, seed))
	}
	var err error
	if w.conns, w.close, err = b.connections(ctx, 2); err != nil {
		return nil, err
	}
	for i := range writers {
		w.names = append(w.names, objects.Name('f', iteration{}.id()))
		if b.Server.Bare {
			continue
		}
		a, err := w.conns[0].Expect(ctx, h2.Request{Method: "POST", Path: w.path, Header: sendJSON, Body: w.bodies[i].With(objects.Fill{Name: w.names[i], Seq: warmUpMarker})})
		if err == nil {
			w.version = objects.Version(a)
		}
		if err == nil && !f.custom {
			var t objects.Template
			if t, err = objects.Answered(a); err == nil {
				b.memory.configMap[f.size] = t
			}
		}
		if err != nil {
			w.close()
			return nil, err
		}
	}
	if b.Server.Bare {
		// The limit sends what a real server would make of these bodies.
		for i := range w.bodies {
			w.bodies[i] = objects.ServedConfigMap(f.size)
			if t, ok := b.memory.configMap[f.size]; ok {
				w.bodies[i] = t
			}
		}
	}
	return w, nil
}

// write writes all events, at a rate if there is one. It returns when all have been acknowledged.
func (w *writer) write(ctx context.Context, events, rate int, sent *clock) error {
	var next atomic.Int64
	began := time.Now()
	errs := make(chan error, writers)
	for i := range writers {
		go func() {
			for {
				seq := int(next.Add(1)) - 1
				if seq >= events {
					errs <- nil
					return
				}
				if rate > 0 {
					time.Sleep(time.Until(began.Add(time.Duration(seq) * time.Second / time.Duration(rate))))
				}
				if sent != nil {
					sent.start(seq)
				}
				r := w.send
				r.Path, r.Body = w.path+"/"+w.names[i], w.bodies[i].With(objects.Fill{Name: w.names[i], Seq: seq, Version: w.base})
				if _, err := w.conns[i%len(w.conns)].Expect(ctx, r); err != nil {
					errs <- err
					return
				}
			}
		}()
	}
	var failed error
	for range writers {
		if err := <-errs; err != nil {
			failed = err
		}
	}
	return failed
}
