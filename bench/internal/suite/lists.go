package suite

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/millrace/millrace/bench/internal/h2"
	"github.com/millrace/millrace/bench/internal/objects"
	"golang.org/x/net/http2/hpack"
)

// shards is the number of values of the label and the field by which lists select.
const shards = 100

// quickLists are part of the short run.
var quickLists = []string{"json-cold", "json", "protobuf", "gzip", "label", "json-50-clients"}

func listCases(n int, quick bool) []Case {
	fixture := fmt.Sprintf("list-%d", n)
	list := func(name string, query string, header []hpack.HeaderField, selected int, bare bool) Case {
		run := lists(query, header, selected, 1)
		c := Case{Name: fmt.Sprintf("list/%s/%d", name, n), Op: "list", Quick: quick && slices.Contains(quickLists, name), Fixture: fixture, Objects: n, Run: run}
		if bare {
			c.Limit = run
		}
		return c
	}
	memory := Case{Name: fmt.Sprintf("memory/%d", n), Op: "fixture", Quick: quick, Fixture: fixture, Objects: n, MostRounds: 1, Settle: true, Run: memory}
	coldJSON := list("json-cold", "", acceptJSON, n, false)
	coldGzip := list("gzip-cold", "", acceptGzip, n, false)
	for _, c := range []*Case{&coldJSON, &coldGzip} {
		c.MostRounds, c.Run = 1, coldList(header(c.Name))
	}
	cases := []Case{
		memory, coldJSON, coldGzip,
		list("json", "", acceptJSON, n, true),
		list("json-rv0", "?resourceVersion=0", acceptJSON, n, false),
		list("protobuf", "", acceptProto, n, true),
		list("gzip", "", acceptGzip, n, true),
		list("table", "", acceptTable, n, false),
		list("label", "?labelSelector=shard%3D"+objects.Shard(1), acceptJSON, n/shards, true),
		list("field", "?fieldSelector=spec.nodeName%3D"+objects.Shard(1), acceptJSON, n/shards, true),
		list("pages", "?limit=500", acceptJSON, n, true),
		watchStart(n, fixture, quick, true), watchStart(n, fixture, false, false),
	}
	if n == parallelListSize {
		crowd := list("json-50-clients", "", acceptJSON, n, true)
		crowd.MostRounds, crowd.Run, crowd.Limit = 1, parallelLists, parallelLists
		cases = append(cases, crowd)
	}
	for i := range cases {
		switch {
		case n > parallelListSize: // takes seconds each time
			cases[i].MostRounds = 1
		case n < parallelListSize && cases[i].MostRounds == 0:
			cases[i].MostRounds = 2
		}
	}
	return cases
}

func header(name string) []hpack.HeaderField {
	if strings.Contains(name, "gzip") {
		return acceptGzip
	}
	return acceptJSON
}

// fixturePods creates the pods for lists.
func fixturePods(ctx context.Context, b *Bench) error {
	if b.Objects == 0 {
		return nil
	}
	t := objects.PlacedPod()
	return b.each(ctx, b.Objects, func(ctx context.Context, c *h2.Conn, i int) error {
		a, err := c.Expect(ctx, h2.Request{Method: "POST", Path: pods, Header: sendJSON,
			Body: t.With(objects.Fill{Name: objects.Name('p', i), Shard: i % shards})})
		if i == 0 {
			b.memory.pod = a
		}
		return err
	})
}

// coldList measures the first list, before any object has been encoded.
func coldList(header []hpack.HeaderField) runFunc {
	return func(ctx context.Context, b *Bench) error {
		c, err := b.Server.Dial(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := b.Begin(ctx); err != nil {
			return err
		}
		if _, err := c.Size(ctx, h2.Request{Method: "GET", Path: pods, Header: header}); err != nil {
			b.profiling.Wait()
			return err
		}
		return b.End(1)
	}
}

// lists measures a list that is read repeatedly, after a check that it is complete.
func lists(query string, header []hpack.HeaderField, want, clients int) runFunc {
	return func(ctx context.Context, b *Bench) error {
		if err := b.sendSample(ctx); err != nil {
			return err
		}
		if err := b.checkList(ctx, query, header, want); err != nil {
			return err
		}
		return b.loop(ctx, clients, func(ctx context.Context, t iteration) error { return readList(ctx, t.conn, query, header) })
	}
}

// readList reads a list with all its pages.
func readList(ctx context.Context, c *h2.Conn, query string, header []hpack.HeaderField) error {
	if !strings.Contains(query, "limit=") {
		_, err := c.Size(ctx, h2.Request{Method: "GET", Path: pods + query, Header: header})
		return err
	}
	for token := ""; ; {
		body, err := c.Expect(ctx, h2.Request{Method: "GET", Path: pods + query + token, Header: header})
		if err != nil {
			return err
		}
		next := between(body[:min(len(body), 1024)], `"continue":"`, `"`)
		if next == "" {
			return nil
		}
		token = "&continue=" + next
	}
}

func between(text []byte, from, to string) string {
	_, behind, ok := bytes.Cut(text, []byte(from))
	if !ok {
		return ""
	}
	value, _, _ := bytes.Cut(behind, []byte(to))
	return string(value)
}

// checkList counts the objects of a list, where the format allows it. It reads the list in any case, so that caches are
// filled.
func (b *Bench) checkList(ctx context.Context, query string, header []hpack.HeaderField, want int) error {
	c, err := b.Server.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if b.Server.Bare || strings.Contains(query, "limit=") || isTable(header) {
		return readList(ctx, c, query, header)
	}
	a, err := c.Do(ctx, h2.Request{Method: "GET", Path: pods + query, Header: header})
	if err != nil {
		return err
	}
	body := a.Body
	for _, h := range a.Header {
		if h.Name == "content-encoding" && h.Value == "gzip" {
			if body, err = unpacked(body); err != nil {
				return err
			}
		}
	}
	if got := bytes.Count(body, []byte("seq=0")); got != want {
		return fmt.Errorf("the list has %d objects instead of %d", got, want)
	}
	return nil
}

func isTable(header []hpack.HeaderField) bool { return strings.Contains(header[0].Value, "as=Table") }

func unpacked(b []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// parallelClients is how many clients list parallelListSize objects at the same time.
const (
	parallelClients  = 50
	parallelListSize = 10_000
)

// parallelLists lets many clients list everything at the same time, once, and measures the server's memory.
func parallelLists(ctx context.Context, b *Bench) error {
	conns, closeAll, err := b.connections(ctx, parallelClients)
	if err != nil {
		return err
	}
	defer closeAll()
	// One client first, so that what all clients share has been made.
	if _, err := conns[0].Size(ctx, h2.Request{Method: "GET", Path: pods, Header: acceptJSON}); err != nil {
		return err
	}
	if err := b.Server.ResetPeak(); err != nil {
		return err
	}
	before, err := b.Server.Memory()
	if err != nil {
		return err
	}
	if err := b.Begin(ctx); err != nil {
		return err
	}
	errs := make(chan error, parallelClients)
	for _, c := range conns {
		go func() {
			_, err := c.Size(ctx, h2.Request{Method: "GET", Path: pods, Header: acceptJSON})
			errs <- err
		}()
	}
	for range conns {
		if e := <-errs; e != nil {
			err = e
		}
	}
	if err != nil {
		b.profiling.Wait()
		return err
	}
	if err := b.End(parallelClients); err != nil {
		return err
	}
	b.Own("peak added, MiB", mebibytes(b.sample.Memory.Peak-before.RSS()))
	return nil
}

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }
