package suite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/bench/internal/h2"
	"github.com/millrace/millrace/bench/internal/objects"
	"github.com/millrace/millrace/bench/internal/proc"
	"github.com/millrace/millrace/bench/internal/stats"
	"github.com/millrace/millrace/bench/internal/target"
	"golang.org/x/net/http2/hpack"
)

// Scale is the amount of work.
type Scale struct {
	// For is the duration of a case that has no end of its own.
	For time.Duration
	// Deliveries is the approximate number of events that a fan-out delivers in all.
	Deliveries int
	// Settle is how long memory may settle before it is measured.
	Settle time.Duration
	// Streams is the number of watches on one connection.
	Streams int
	// Profiles is the directory for CPU profiles of the servers; empty: no profiles.
	Profiles string
}

// Bench is one turn of one target in a case.
type Bench struct {
	Scale
	Server  *target.Server
	Objects int // the number of pods
	memory  *samples

	name   string
	log    io.Writer
	sample Sample
	began  time.Time
	cpu    time.Duration
	in     int64
	live   float64 // bytes of live memory in the server at the last collect
	times  struct {
		sync.Mutex
		all []time.Duration
	}
	profiling sync.WaitGroup
}

// samples are answers of a real server, which the limit imitates.
type samples struct {
	pod       []byte
	configMap map[int]objects.Template
}

// Sample is the measurement of one turn.
type Sample struct {
	Count int           `json:"count"`
	Took  time.Duration `json:"took"`
	// CPU is the server's CPU time for each operation.
	CPU      time.Duration `json:"cpu"`
	P50, P99 time.Duration
	// Wire is the number of bytes that the server sent for each operation.
	Wire   float64     `json:"wire"`
	Memory proc.Memory `json:"memory"`
	// Lost counts events that a watcher should have received and did not, or received twice or out of order.
	Lost int `json:"lost"`
	// Own has figures that only this case has.
	Own map[string]float64 `json:"own,omitempty"`
}

// Rate returns operations per second.
func (s Sample) Rate() float64 {
	if s.Took <= 0 {
		return 0
	}
	return float64(s.Count) / s.Took.Seconds()
}

// Begin starts the measurement.
func (b *Bench) Begin(ctx context.Context) error {
	if b.Profiles != "" && !b.Server.Bare {
		if err := b.profile(ctx); err != nil {
			return err
		}
	}
	var err error
	if b.cpu, err = b.Server.CPU(); err != nil {
		return err
	}
	b.in = b.Server.Wire.In.Load()
	b.began = time.Now()
	return nil
}

// End stops the measurement after this number of operations.
func (b *Bench) End(count int) error {
	b.sample.Took = time.Since(b.began)
	cpu, err := b.Server.CPU()
	if err != nil {
		return err
	}
	if b.sample.Memory, err = b.Server.Memory(); err != nil {
		return err
	}
	b.sample.Count = count
	if count > 0 {
		b.sample.CPU = (cpu - b.cpu) / time.Duration(count)
		b.sample.Wire = float64(b.Server.Wire.In.Load()-b.in) / float64(count)
	}
	b.profiling.Wait()
	return nil
}

// Times adds durations of operations or latencies of events.
func (b *Bench) Times(t []time.Duration) {
	b.times.Lock()
	defer b.times.Unlock()
	b.times.all = append(b.times.all, t...)
}

// Own sets a figure that only this case has.
func (b *Bench) Own(name string, v float64) {
	if b.sample.Own == nil {
		b.sample.Own = map[string]float64{}
	}
	b.sample.Own[name] = v
}

// Lost adds lost events.
func (b *Bench) Lost(n int) { b.sample.Lost += n }

// finish returns the sample.
func (b *Bench) finish() Sample {
	if len(b.times.all) > 0 {
		p := stats.Percentiles(b.times.all, 50, 99)
		b.sample.P50, b.sample.P99 = p[0], p[1]
	}
	return b.sample
}

// profileName returns the file name for a profile of this case.
func (b *Bench) profileName(kind string) string {
	return filepath.Join(b.Profiles, strings.ReplaceAll(b.name, "/", "-")+"."+b.Server.Name+"."+kind+".pprof")
}

// profileStart is how long a profile takes to start.
const profileStart = 100 * time.Millisecond

// profile records a CPU profile of the server for about the duration of the case.
func (b *Bench) profile(ctx context.Context) error {
	c, err := b.Server.Dial(ctx)
	if err != nil {
		return err
	}
	seconds := max(1, int(b.For.Round(time.Second)/time.Second))
	name := b.profileName("cpu")
	b.profiling.Go(func() {
		defer c.Close()
		text, err := c.Expect(ctx, h2.Request{Method: "GET", Path: fmt.Sprintf("/debug/pprof/profile?seconds=%d", seconds)})
		if err == nil {
			err = os.WriteFile(name, text, 0o644)
		}
		if err != nil {
			fmt.Fprintf(b.log, "no profile of %s: %v\n", name, err)
		}
	})
	time.Sleep(profileStart)
	return nil
}

// connections opens several connections.
func (b *Bench) connections(ctx context.Context, n int) ([]*h2.Conn, func(), error) {
	var out []*h2.Conn
	closeAll := func() {
		for _, c := range out {
			c.Close()
		}
	}
	for range n {
		c, err := b.Server.Dial(ctx)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		out = append(out, c)
	}
	return out, closeAll, nil
}

const (
	workers     = 64
	connections = 4
	maxCalls    = 500_000
)

// iteration is one call of a loop.
type iteration struct {
	worker, n int // n counts the worker's own calls
	conn      *h2.Conn
}

// id returns a number that is unique in this process.
func (t iteration) id() int { return int(ids.Add(1)) }

var ids atomic.Int64

// loop lets workers make calls as fast as they can, each waiting for its answers, and measures that.
func (b *Bench) loop(ctx context.Context, workers int, call func(context.Context, iteration) error) error {
	conns, closeAll, err := b.connections(ctx, min(workers, connections))
	if err != nil {
		return err
	}
	defer closeAll()
	if err := b.Begin(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var count atomic.Int64
	var running sync.WaitGroup
	for w := range workers {
		running.Go(func() {
			var took []time.Duration
			for n := 0; n < maxCalls/workers && (n == 0 || time.Since(b.began) < b.For); n++ {
				start := time.Now()
				if err := call(ctx, iteration{w, n, conns[w%len(conns)]}); err != nil {
					cancel(err)
					break
				}
				took = append(took, time.Since(start))
			}
			count.Add(int64(len(took)))
			b.Times(took)
		})
	}
	running.Wait()
	if err := context.Cause(ctx); err != nil {
		b.profiling.Wait()
		return err
	}
	return b.End(int(count.Load()))
}

// each makes a call for every number below n, with many workers, without measuring.
func (b *Bench) each(ctx context.Context, n int, call func(ctx context.Context, conn *h2.Conn, i int) error) error {
	conns, closeAll, err := b.connections(ctx, connections)
	if err != nil {
		return err
	}
	defer closeAll()
	var next atomic.Int64
	errs := make([]error, workers)
	var running sync.WaitGroup
	for w := range workers {
		running.Go(func() {
			for errs[w] == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				errs[w] = call(ctx, conns[w%len(conns)], i)
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

func fields(pairs ...string) []hpack.HeaderField {
	var out []hpack.HeaderField
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}
	return out
}

const (
	jsonType  = "application/json"
	protoType = "application/vnd.kubernetes.protobuf"
	agent     = "bench"
)

var (
	acceptJSON  = fields("accept", jsonType, "user-agent", agent)
	acceptProto = fields("accept", protoType, "user-agent", agent)
	acceptGzip  = fields("accept", jsonType, "accept-encoding", "gzip", "user-agent", agent)
	acceptTable = fields("accept", jsonType+";as=Table;v=v1;g=meta.k8s.io", "user-agent", agent)
	sendJSON    = fields("accept", jsonType, "content-type", jsonType, "user-agent", agent)
	sendProto   = fields("accept", protoType, "content-type", protoType, "user-agent", agent)
	sendMerge   = fields("accept", jsonType, "content-type", "application/merge-patch+json", "user-agent", agent)
	sendSMP     = fields("accept", jsonType, "content-type", "application/strategic-merge-patch+json", "user-agent", agent)
	sendApply   = fields("accept", jsonType, "content-type", "application/apply-patch+yaml", "user-agent", agent)
)
