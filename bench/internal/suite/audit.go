package suite

import (
	"context"
	"net/http"
	"time"

	"github.com/millrace/millrace/bench/internal/h2"
	"github.com/millrace/millrace/bench/internal/objects"
	"github.com/millrace/millrace/bench/internal/target"
)

// turn is how many gets a server answers before it is the other's turn: so few that the machine is equally fast for
// both.
const turn = 100

// turns are the gets of one of two servers.
type turns struct {
	server    *target.Server
	conn      *h2.Conn
	cpu, took time.Duration
	times     []time.Duration
}

// auditedGets measures gets of a user from a server with an audit log. A server without one answers as many, in turns
// with it: the difference is what the log costs.
func auditedGets(ctx context.Context, b *Bench) error {
	plain, err := b.Server.Unaudited(ctx)
	if err != nil {
		return err
	}
	defer plain.Stop()
	if err := twoUsers(ctx, &Bench{Scale: b.Scale, Server: plain}); err != nil {
		return err
	}
	both := [2]turns{{server: plain}, {server: b.Server}}
	for i := range both {
		conn, err := both[i].server.Dial(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		both[i].conn = conn
		if err := both[i].take(ctx); err != nil { // warms up
			return err
		}
		both[i] = turns{server: both[i].server, conn: conn}
	}
	if err := b.Begin(ctx); err != nil {
		return err
	}
	for time.Since(b.began) < b.For {
		for i := range both {
			if err := both[i].take(ctx); err != nil {
				return err
			}
		}
	}
	without, with := &both[0], &both[1]
	count := len(with.times)
	if err := b.End(count); err != nil {
		return err
	}
	b.sample.Took, b.sample.CPU = with.took, with.cpu/time.Duration(count)
	b.Times(with.times)
	b.Own("CPU without audit, µs", float64(without.cpu.Microseconds())/float64(count))
	b.Own("CPU of audit, %", 100*(float64(with.cpu)/float64(without.cpu)-1))
	return nil
}

func (t *turns) take(ctx context.Context) error {
	get := h2.Request{Method: http.MethodGet, Path: configMaps + "/" + objects.Name('q', 0), Header: as("quiet")}
	before, err := t.server.CPU()
	if err != nil {
		return err
	}
	began := time.Now()
	for range turn {
		start := time.Now()
		if _, err := t.conn.Expect(ctx, get); err != nil {
			return err
		}
		t.times = append(t.times, time.Since(start))
	}
	t.took += time.Since(began)
	after, err := t.server.CPU()
	t.cpu += after - before
	return err
}
