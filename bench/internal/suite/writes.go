package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/bench/internal/h2"
	"github.com/millrace/millrace/bench/internal/limit"
	"github.com/millrace/millrace/bench/internal/objects"
	"golang.org/x/net/http2/hpack"
)

const (
	pods       = "/api/v1/namespaces/default/pods"
	configMaps = "/api/v1/namespaces/default/configmaps"
	leases     = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
	deploys    = "/apis/apps/v1/namespaces/default/deployments"
)

// Sizes of the values that are written into etcd.
const (
	storedPod   = 4 << 10
	storedSmall = 1 << 10
	storedLease = 300
)

func writeCases() []Case {
	pod, podProto := objects.Pod(), objects.PodProto()
	return []Case{
		{Name: "create/json", Op: "pod", Quick: true, Fixture: "writes", Run: creates(pods, sendJSON, pod), Limit: puts(storedPod, false)},
		{Name: "create/protobuf", Op: "pod", Quick: true, Fixture: "writes", Run: creates(pods, sendProto, podProto), Limit: puts(storedPod, false)},
		{Name: "patch/merge", Op: "pod", Fixture: "writes", Run: patches(sendMerge), Limit: puts(storedPod, true)},
		{Name: "patch/strategic", Op: "pod", Quick: true, Fixture: "writes", Run: patches(sendSMP), Limit: puts(storedPod, true)},
		{Name: "update", Op: "pod", Quick: true, Fixture: "writes", Run: updates(pods, pod), Limit: puts(storedPod, true)},
		{Name: "lease", Op: "lease", Quick: true, Fixture: "writes", Run: updates(leases, objects.Lease()), Limit: puts(storedLease, true)},
		{Name: "apply", Op: "deployment", Quick: true, Fixture: "writes", Run: applies, Limit: puts(storedSmall, true)},
		{Name: "delete", Op: "pod", Quick: true, Fixture: "writes", Run: deletes},
		{Name: "get/json", Op: "pod", Quick: true, Fixture: "writes", Run: gets(acceptJSON), Limit: gets(acceptJSON)},
		{Name: "get/protobuf", Op: "pod", Fixture: "writes", Run: gets(acceptProto), Limit: gets(acceptProto)},
	}
}

func creates(path string, header []hpack.HeaderField, t objects.Template) runFunc {
	return func(ctx context.Context, b *Bench) error {
		return b.loop(ctx, workers, func(ctx context.Context, t2 iteration) error {
			_, err := t2.conn.Size(ctx, h2.Request{Method: "POST", Path: path, Header: header, Body: t.With(objects.Fill{Name: objects.Name('c', t2.id())})})
			return err
		})
	}
}

// createOwn creates an object for each worker, and returns the server's answers.
func (b *Bench) createOwn(ctx context.Context, path string, t objects.Template) (names []string, answers [][]byte, err error) {
	names, answers = make([]string, workers), make([][]byte, workers)
	err = b.each(ctx, workers, func(ctx context.Context, c *h2.Conn, i int) error {
		names[i] = objects.Name('o', iteration{}.id())
		var err error
		answers[i], err = c.Expect(ctx, h2.Request{Method: "POST", Path: path, Header: sendJSON, Body: t.With(objects.Fill{Name: names[i]})})
		return err
	})
	return names, answers, err
}

func patches(header []hpack.HeaderField) runFunc {
	patch := objects.Patch()
	return func(ctx context.Context, b *Bench) error {
		names, _, err := b.createOwn(ctx, pods, objects.Pod())
		if err != nil {
			return err
		}
		return b.loop(ctx, workers, func(ctx context.Context, t iteration) error {
			_, err := t.conn.Size(ctx, h2.Request{Method: "PATCH", Path: pods + "/" + names[t.worker], Header: header, Body: patch.With(objects.Fill{Seq: t.n + 1})})
			return err
		})
	}
}

// updates writes the server's last answer back with a change, as a client does that reads, decides and writes.
func updates(path string, t objects.Template) runFunc {
	return func(ctx context.Context, b *Bench) error {
		names, answers, err := b.createOwn(ctx, path, t)
		if err != nil {
			return err
		}
		return b.loop(ctx, workers, func(ctx context.Context, t iteration) error {
			body := answers[t.worker]
			if err := objects.Remark(body, t.n+1); err != nil {
				return err
			}
			answer, err := t.conn.Expect(ctx, h2.Request{Method: "PUT", Path: path + "/" + names[t.worker], Header: sendJSON, Body: body})
			answers[t.worker] = answer
			return err
		})
	}
}

func applies(ctx context.Context, b *Bench) error {
	t, first := objects.Apply(), iteration{}.id()
	return b.loop(ctx, workers, func(ctx context.Context, u iteration) error {
		name := objects.Name('a', first*workers+u.worker)
		_, err := u.conn.Expect(ctx, h2.Request{Method: "PATCH", Path: deploys + "/" + name + "?fieldManager=bench&force=true", Header: sendApply,
			Body: t.With(objects.Fill{Name: name, Seq: u.n})})
		return err
	})
}

// maxDeleted limits the pods that are created only to be deleted, per second of the case.
const maxDeleted = 2000

func deletes(ctx context.Context, b *Bench) error {
	n := int(maxDeleted * min(b.For, 5*time.Second).Seconds())
	pod, names := objects.Pod(), make([]string, n)
	err := b.each(ctx, n, func(ctx context.Context, c *h2.Conn, i int) error {
		names[i] = objects.Name('d', iteration{}.id())
		_, err := c.Expect(ctx, h2.Request{Method: "POST", Path: pods, Header: sendJSON, Body: pod.With(objects.Fill{Name: names[i]})})
		return err
	})
	if err != nil {
		return err
	}
	if err := b.Begin(ctx); err != nil {
		return err
	}
	var mu sync.Mutex
	var took []time.Duration
	err = b.each(ctx, n, func(ctx context.Context, c *h2.Conn, i int) error {
		start := time.Now()
		_, err := c.Expect(ctx, h2.Request{Method: "DELETE", Path: pods + "/" + names[i] + "?gracePeriodSeconds=0", Header: acceptJSON})
		mu.Lock()
		defer mu.Unlock()
		took = append(took, time.Since(start))
		return err
	})
	b.Times(took)
	if err != nil {
		b.profiling.Wait()
		return err
	}
	return b.End(n)
}

func gets(header []hpack.HeaderField) runFunc {
	return func(ctx context.Context, b *Bench) error {
		names := slices.Repeat([]string{"any"}, workers) // for the limit all names are the same
		if !b.Server.Bare {
			var err error
			var answers [][]byte
			if names, answers, err = b.createOwn(ctx, pods, objects.Pod()); err != nil {
				return err
			}
			b.memory.pod = answers[0]
		}
		if err := b.sendSample(ctx); err != nil {
			return err
		}
		return b.loop(ctx, workers, func(ctx context.Context, t iteration) error {
			_, err := t.conn.Size(ctx, h2.Request{Method: "GET", Path: pods + "/" + names[t.worker], Header: header})
			return err
		})
	}
}

// sendSample sends a real server's pod to the limit, which imitates it.
func (b *Bench) sendSample(ctx context.Context) error {
	if !b.Server.Bare || b.memory.pod == nil {
		return nil
	}
	c, err := b.Server.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Expect(ctx, h2.Request{Method: "PUT", Path: "/sample/pod", Body: b.memory.pod})
	return err
}

// puts measures writes of the limit into its log, without a server.
func puts(size int, update bool) runFunc {
	return func(ctx context.Context, b *Bench) error {
		c, err := b.Server.Dial(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		order := func(o limit.PutOrder) (limit.PutResult, error) {
			var r limit.PutResult
			body, err := json.Marshal(o)
			if err != nil {
				return r, err
			}
			answer, err := c.Expect(ctx, h2.Request{Method: "POST", Path: "/puts", Body: body})
			if err != nil {
				return r, err
			}
			return r, json.Unmarshal(answer, &r)
		}
		// The first call opens the log.
		if _, err := order(limit.PutOrder{Workers: 1, Bytes: size, For: time.Millisecond}); err != nil {
			return err
		}
		if err := b.Begin(ctx); err != nil {
			return err
		}
		r, err := order(limit.PutOrder{Workers: workers, Bytes: size, For: b.For, Update: update})
		if err != nil {
			return fmt.Errorf("puts: %w", err)
		}
		if err := b.End(r.Count); err != nil {
			return err
		}
		b.sample.P50, b.sample.P99, b.sample.Took = r.P50, r.P99, r.Took
		return nil
	}
}
