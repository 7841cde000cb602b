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
		{Name: "memory/0", Op: "fixture", Fixture: "empty", MostRounds: 1, Settle: true, Prepare: look, Run: memory},
		idle(1000, true), idle(10_000, false),
		nodes(500, true), nodes(5000, false),
		{Name: "informers/1000", Op: "informer", Fixture: "informers", Objects: 10_000, MostRounds: 1, Prepare: smallObjects, Run: informers},
	}
}

// start tells how long it took until the server was ready, and what it needs then.
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

// look asks what kubectl asks a server that it does not know.
func look(ctx context.Context, b *Bench) error {
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

// memory tells what the server needs with the objects that are there, when it has come to rest.
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

// settles is how long memory is given to come down.
const settles = time.Second

// collect makes the server collect its garbage, as it would by itself in time, and notes how much is alive in its heap and
// stacks.
func (b *Bench) collect(ctx context.Context) error {
	c, err := b.Server.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	// Pools let go of what they keep at the second collection only.
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
	case <-time.After(settles):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// churn is how many events idle watches see.
const churn = 100

// usage is memory in bytes: what the system sees, and what the program itself says is in use of it (less in a server of
// several programs).
type usage struct{ anon, live float64 }

// idle opens watches, and looks at what each needs before and after some events.
func idle(n int) runFunc {
	return func(ctx context.Context, b *Bench) error {
		f := fan{watchers: n, size: 1 << 10}
		w, err := f.newWriter(ctx, b)
		if err != nil {
			return err
		}
		defer w.close()
		look := func() (m usage, err error) {
			if err := b.collect(ctx); err != nil {
				return m, err
			}
			memory, err := b.Server.Memory()
			return usage{float64(memory.Anon), b.live}, err
		}
		none, err := look()
		if err != nil {
			return err
		}
		k := &crowd{}
		defer k.close()
		for range n {
			k.followers = append(k.followers, newFollower(churn, nil, &k.total))
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
		quiet, err := look()
		if err != nil {
			return err
		}
		if err := w.write(ctx, churn, 0, nil); err != nil {
			return err
		}
		k.wait(ctx, k.followers)
		after, err := look()
		if err != nil {
			return err
		}
		each := 1024 * float64(n)
		b.Own("resident a watch, KiB", (quiet.anon-none.anon)/each)
		b.Own("resident after churn, KiB", (after.anon-none.anon)/each)
		b.Own("alive a watch, KiB", (quiet.live-none.live)/each)
		b.Own("alive after churn, KiB", (after.live-none.live)/each)
		k.close()
		k.account(b)
		return nil
	}
}

// nodeWatches lets as many watchers as there are nodes each see the changes of its own pods only.
func nodeWatches(nodes int) runFunc {
	return func(ctx context.Context, b *Bench) error {
		pod, patch := objects.SmallPod(), objects.Patch()
		names := make([]string, nodes)
		version := ""
		err := b.each(ctx, nodes, func(ctx context.Context, c *h2.Conn, i int) error {
			names[i] = objects.Name('n', iteration{}.id())
			a, err := c.Expect(ctx, h2.Request{Method: "POST", Path: pods, Header: sendJSON, Body: pod.With(objects.Fill{Name: names[i], Seq: warm, Shard: i})})
			if i == nodes-1 {
				version = objects.Version(a)
			}
			return err
		})
		if err != nil {
			return err
		}
		events := min(max(b.Deliveries/20, nodes), 4*nodes)
		k := &crowd{}
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
		k.account(b)
		return nil
	}
}

// starters is how many watches begin at the same time.
const starters = 50

// watchStart opens watches, with all objects first or without them.
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
		return b.initialEvents(ctx, max(2, min(starters, 100_000/max(b.Objects, 1))),
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
	k := newCrowd(20 * starters)
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

// newCrowd is many that wait for a bookmark.
func newCrowd(n int) *crowd {
	k := &crowd{}
	for range n {
		f := newFollower(0, nil, &k.total)
		f.bookmark = f.finish
		k.followers = append(k.followers, f)
	}
	return k
}

// slowStart is how long nothing may come before initial events are given up.
const slowStart = 30 * time.Second

// initialEvents opens watches that begin with all objects, and waits until they have them.
func (b *Bench) initialEvents(ctx context.Context, watches int, path string) error {
	k := newCrowd(watches)
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
		_, err := c.Expect(ctx, h2.Request{Method: "POST", Path: configMaps, Header: sendJSON, Body: t.With(objects.Fill{Name: objects.Name('i', i), Seq: warm})})
		return err
	})
}

// crowdOfInformers is how many begin at once.
const crowdOfInformers = 1000

// informers lets many informers begin at once, and waits until all have all objects.
func informers(ctx context.Context, b *Bench) error {
	return b.initialEvents(ctx, crowdOfInformers, configMaps+"?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
}

// Cases are all there are, in the order in which they run.
func Cases() []Case {
	return slices.Concat(watchCases()[:1], writeCases(), extensionCases(), fanOutCases(), watchCases()[1:], listCases(1000, false), listCases(10_000, true), listCases(100_000, false), customCases())
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
