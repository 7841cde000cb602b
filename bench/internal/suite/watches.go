package suite

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/bench/internal/h2"
	"github.com/millrace/millrace/bench/internal/objects"
)

func watchCases() []Case {
	idle := func(n int, quick bool) Case {
		return Case{Name: fmt.Sprintf("idle/%d", n), Op: "watch opened", Quick: quick, Fixture: "idle", Fresh: true, Run: idle(n)}
	}
	nodes := func(n int, quick bool) Case {
		return Case{Name: fmt.Sprintf("nodes/%d", n), Op: "delivery", Quick: quick, Fixture: fmt.Sprintf("nodes-%d", n), Run: nodeWatches(n)}
	}
	return []Case{
		{Name: "start", Op: "start", Quick: true, Fixture: "start", Fresh: true, Run: start},
		{Name: "memory/0", Op: "fixture", Fixture: "empty", MostRounds: 1, Settle: true, Prepare: discoverAsKubectl, Run: memory},
		idle(1000, true), idle(10_000, false),
		nodes(500, true), nodes(5000, false),
		{Name: "informers/1000", Op: "informer", Fixture: "informers", Objects: 10_000, MostRounds: 1, Prepare: smallObjects, Run: informers},
	}
}

// start measures the time until the server is ready, and its memory then.
func start(ctx context.Context, b *Bench) error {
	cpu, err := b.Server.CPU()
	if err != nil {
		return err
	}
	if err := b.Begin(ctx); err != nil {
		return err
	}
	if err := b.End(1); err != nil {
		return err
	}
	b.sample.CPU, b.sample.Took = cpu, b.Server.Took
	b.Own("ready, ms", b.Server.Took.Seconds()*1000)
	b.Own("at ready, MiB", mebibytes(b.sample.Memory.RSS()))
	return nil
}

// discoverAsKubectl sends the requests with which kubectl discovers a server.
func discoverAsKubectl(ctx context.Context, b *Bench) error {
	c, err := b.Server.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, path := range []string{"/version", "/api", "/apis", "/api/v1", "/apis/apps/v1", "/openapi/v3", "/openapi/v3/api/v1", "/openapi/v2"} {
		if _, err := c.Expect(ctx, h2.Request{Method: "GET", Path: path, Header: acceptJSON}); err != nil {
			return err
		}
	}
	_, err = c.Expect(ctx, h2.Request{Method: "GET", Path: pods, Header: acceptTable})
	return err
}

// memory measures the server's memory with its objects, after it has settled.
func memory(ctx context.Context, b *Bench) error {
	if err := b.Begin(ctx); err != nil {
		return err
	}
	if b.Profiles != "" || b.Settle == 0 {
		if err := b.collect(ctx); err != nil {
			return err
		}
	}
	if err := b.End(1); err != nil {
		return err
	}
	b.Own("resident, MiB", mebibytes(b.sample.Memory.RSS()))
	b.Own("anonymous, MiB", mebibytes(b.sample.Memory.Anon))
	b.Own("peak, MiB", mebibytes(b.sample.Memory.Peak))
	return nil
}

// settleTime is how long memory may settle.
const settleTime = time.Second

// collect makes the server collect garbage, and records its live heap and stacks.
func (b *Bench) collect(ctx context.Context) error {
	c, err := b.Server.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	// Pools release their memory at the second collection only.
	var heap []byte
	for range 2 {
		if heap, err = c.Expect(ctx, h2.Request{Method: "GET", Path: "/debug/pprof/heap?gc=1"}); err != nil {
			return err
		}
	}
	if b.Profiles != "" {
		if err := os.WriteFile(b.profileName("heap"), heap, 0o644); err != nil {
			return err
		}
	}
	text, err := c.Expect(ctx, h2.Request{Method: "GET", Path: "/debug/pprof/heap?debug=1"})
	if err != nil {
		return err
	}
	b.live = 0
	for _, part := range []string{"# HeapAlloc = ", "# StackInuse = "} {
		b.live += float64(max(number(text, []byte(part)), 0))
	}
	select {
	case <-time.After(settleTime):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// idleEvents is how many events idle watches receive.
const idleEvents = 100

// usage is memory in bytes: the system's figure, and the program's own figure of what is in use (less for a server that
// consists of several programs).
type usage struct{ anon, live float64 }

// idle opens watches, and measures the memory of each before and after some events.
func idle(n int) runFunc {
	return func(ctx context.Context, b *Bench) error {
		f := fanOut{watchers: n, size: 1 << 10}
		w, err := f.newWriter(ctx, b)
		if err != nil {
			return err
		}
		defer w.close()
		discoverAsKubectl := func() (m usage, err error) {
			if err := b.collect(ctx); err != nil {
				return m, err
			}
			memory, err := b.Server.Memory()
			return usage{float64(memory.Anon), b.live}, err
		}
		none, err := discoverAsKubectl()
		if err != nil {
			return err
		}
		k := &watchGroup{}
		defer k.close()
		for range n {
			k.followers = append(k.followers, newFollower(idleEvents, nil, &k.total))
		}
		if err := b.Begin(ctx); err != nil {
			return err
		}
		if err := b.open(ctx, k, func(int) string {
			return configMaps + "?watch=true&resourceVersion=" + w.version + "&timeoutSeconds=600"
		}, acceptJSON); err != nil {
			b.profiling.Wait()
			return err
		}
		if err := b.End(n); err != nil {
			return err
		}
		quiet, err := discoverAsKubectl()
		if err != nil {
			return err
		}
		if err := w.write(ctx, idleEvents, 0, nil); err != nil {
			return err
		}
		k.wait(ctx, k.followers)
		after, err := discoverAsKubectl()
		if err != nil {
			return err
		}
		each := 1024 * float64(n)
		b.Own("resident a watch, KiB", (quiet.anon-none.anon)/each)
		b.Own("resident after churn, KiB", (after.anon-none.anon)/each)
		b.Own("alive a watch, KiB", (quiet.live-none.live)/each)
		b.Own("alive after churn, KiB", (after.live-none.live)/each)
		k.close()
		k.countEvents(b)
		return nil
	}
}

// nodeWatches opens a watch for each node. Each receives the changes of its own pods only.
func nodeWatches(nodes int) runFunc {
	return func(ctx context.Context, b *Bench) error {
		pod, patch := objects.SmallPod(), objects.Patch()
		names := make([]string, nodes)
		version := ""
		err := b.each(ctx, nodes, func(ctx context.Context, c *h2.Conn, i int) error {
			names[i] = objects.Name('n', iteration{}.id())
			a, err := c.Expect(ctx, h2.Request{Method: "POST", Path: pods, Header: sendJSON, Body: pod.With(objects.Fill{Name: names[i], Seq: warmUpMarker, Shard: i})})
			if i == nodes-1 {
				version = objects.Version(a)
			}
			return err
		})
		if err != nil {
			return err
		}
		events := min(max(b.Deliveries/20, nodes), 4*nodes)
		k := &watchGroup{}
		defer k.close()
		for i := range nodes {
			k.followers = append(k.followers, newFollower(events, func(seq int) bool { return seq%nodes == i }, &k.total))
		}
		path := func(i int) string {
			return pods + "?watch=true&timeoutSeconds=600&resourceVersion=" + version + "&fieldSelector=spec.nodeName%3D" + objects.Shard(i)
		}
		if err := b.open(ctx, k, path, acceptJSON); err != nil {
			return err
		}
		if err := b.Begin(ctx); err != nil {
			return err
		}
		err = b.each(ctx, events, func(ctx context.Context, c *h2.Conn, i int) error {
			_, err := c.Expect(ctx, h2.Request{Method: "PATCH", Path: pods + "/" + names[i%nodes], Header: sendMerge, Body: patch.With(objects.Fill{Seq: i})})
			return err
		})
		if err != nil {
			b.profiling.Wait()
			return err
		}
		last := k.wait(ctx, k.followers)
		if err := b.End(int(k.total.Load())); err != nil {
			return err
		}
		b.sample.Took = last.Sub(b.began)
		k.close()
		k.countEvents(b)
		return nil
	}
}

// parallelStarts is how many watches start at the same time.
const parallelStarts = 50

// watchStart opens watches, with or without initial events.
func watchStart(n int, fixture string, quick, initial bool) Case {
	c := Case{Name: fmt.Sprintf("watch-start/initial/%d", n), Op: "watch", Quick: quick, Fixture: fixture, Objects: n}
	if !initial {
		c.Name = fmt.Sprintf("watch-start/bare/%d", n)
	}
	c.Run = func(ctx context.Context, b *Bench) error { return watchStarts(ctx, b, initial) }
	return c
}

func watchStarts(ctx context.Context, b *Bench, initial bool) error {
	if initial {
		return b.initialEvents(ctx, max(2, min(parallelStarts, 100_000/max(b.Objects, 1))),
			pods+"?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
	}
	c, err := b.Server.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	a, err := c.Expect(ctx, h2.Request{Method: "GET", Path: pods + "?limit=1", Header: acceptJSON})
	if err != nil {
		return err
	}
	k := newWatchGroup(20 * parallelStarts)
	defer k.close()
	if err := b.Begin(ctx); err != nil {
		return err
	}
	path := pods + "?watch=true&allowWatchBookmarks=true&resourceVersion=" + objects.Version(a)
	if err := b.open(ctx, k, func(int) string { return path }, acceptJSON); err != nil {
		b.profiling.Wait()
		return err
	}
	return b.End(len(k.followers))
}

// newWatchGroup returns a group of watches that wait for a bookmark.
func newWatchGroup(n int) *watchGroup {
	k := &watchGroup{}
	for range n {
		f := newFollower(0, nil, &k.total)
		f.bookmark = f.finish
		k.followers = append(k.followers, f)
	}
	return k
}

// slowStart is how long to wait for the next initial event.
const slowStart = 30 * time.Second

// initialEvents opens watches with initial events, and waits until all have received them.
func (b *Bench) initialEvents(ctx context.Context, watches int, path string) error {
	k := newWatchGroup(watches)
	defer k.close()
	if err := b.Begin(ctx); err != nil {
		return err
	}
	if err := b.open(ctx, k, func(int) string { return path }, acceptJSON); err != nil {
		b.profiling.Wait()
		return err
	}
	k.idleLimit = slowStart
	last := k.wait(ctx, k.followers)
	if err := ctx.Err(); err != nil {
		b.profiling.Wait()
		return fmt.Errorf("%d of %d objects had come: %w", k.total.Load(), watches*b.Objects, err)
	}
	if err := b.End(watches); err != nil {
		return err
	}
	b.sample.Took = last.Sub(b.began)
	k.close()
	for _, f := range k.followers {
		b.Lost(max(0, b.Objects-f.initial))
	}
	return nil
}

// smallObjects are config maps of 200 bytes.
func smallObjects(ctx context.Context, b *Bench) error {
	t := objects.ConfigMap(200, 0)
	return b.each(ctx, b.Objects, func(ctx context.Context, c *h2.Conn, i int) error {
		_, err := c.Expect(ctx, h2.Request{Method: "POST", Path: configMaps, Header: sendJSON, Body: t.With(objects.Fill{Name: objects.Name('i', i), Seq: warmUpMarker})})
		return err
	})
}

// informerCount is how many informers start at once.
const informerCount = 1000

// informers starts many informers at once, and waits until all have all objects.
func informers(ctx context.Context, b *Bench) error {
	return b.initialEvents(ctx, informerCount, configMaps+"?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
}

// Cases returns all cases, in their order.
func Cases() []Case {
	return slices.Concat(watchCases()[:1], writeCases(), extensionCases(), accessCases(), fanOutCases(), watchCases()[1:],
		listCases(1000, false), listCases(10_000, true), listCases(100_000, false), customCases())
}

// Names lists cases.
func Names(cases []Case) string {
	var b strings.Builder
	for _, c := range cases {
		quick := ""
		if c.Quick {
			quick = "quick"
		}
		fmt.Fprintf(&b, "%-28s %-14s %s\n", c.Name, c.Op, quick)
	}
	return b.String()
}
