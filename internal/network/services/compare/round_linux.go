package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/network/nft"
	"github.com/millrace/millrace/internal/network/services"
)

// contender is a proxy that is measured.
type contender struct {
	name string
	args []string
	// full reports whether the tables contain all services.
	full func(conn *nft.Conn, o options) bool
	// clean removes the tables.
	clean func(conn *nft.Conn) error
}

func contenders(o options, kubeconfig string) []contender {
	common := []string{"--kubeconfig", kubeconfig, "--hostname-override", nodeName, "--proxy-mode", "nftables", "--cluster-cidr", podRange}
	all := []contender{{
		name: "millrace", args: append([]string{o.millrace, "proxy"}, common...),
		full: func(conn *nft.Conn, o options) bool {
			return count(conn, "millrace-services", "endpoints") >= o.services*o.endpoints
		},
		clean: func(*nft.Conn) error { return services.Remove() },
	}}
	if o.kubeProxy != "" {
		all = append(all, contender{
			name: "kube-proxy", args: append(append([]string{o.kubeProxy}, common...), "--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0s",
				"--conntrack-tcp-timeout-close-wait=0s"),
			full: func(conn *nft.Conn, o options) bool { return count(conn, "kube-proxy", "service-ips") >= o.services },
			clean: func(conn *nft.Conn) error {
				var b nft.Batch
				for _, f := range []nft.Family{nft.IPv4, nft.IPv6} {
					t := nft.Table{Family: f, Name: "kube-proxy"}
					if _, exists, err := conn.Comment(t); err == nil && exists {
						b.DeleteTable(t)
					}
				}
				return conn.Commit(&b)
			},
		})
	}
	return all
}

// count returns the number of elements of a set.
func count(conn *nft.Conn, table, set string) int {
	all, err := conn.Elements(nft.Table{Family: nft.IPv4, Name: table}, set)
	if err != nil {
		return 0
	}
	return len(all)
}

// head names the columns of the table.
const head = "proxy\tfirst sync ms\tCPU ms\ta change ms (median)\t(most)\tCPU ms a change\tMiB\tpeak MiB"

// result has one contender's measurements. A proxy that connects to the API and reads everything before it writes has
// that time included.
type result struct {
	first, firstCPU time.Duration
	changes         []time.Duration
	changeCPU       time.Duration
	rss, peak       int    // KiB
	load            string // the columns of the measurements under load
}

// String returns a contender's part of a line of the table.
func (r result) String() string {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	var middle, most, each time.Duration
	if n := len(r.changes); n > 0 {
		sorted := slices.Sorted(slices.Values(r.changes))
		middle, most, each = sorted[n/2], sorted[n-1], r.changeCPU/time.Duration(n)
	}
	return fmt.Sprintf("%.0f\t%.0f\t%.2f\t%.2f\t%.2f\t%d\t%d", ms(r.first), ms(r.firstCPU), ms(middle), ms(most), ms(each), r.rss>>10, r.peak>>10) + r.load
}

// firstSyncTimeout is how long a contender may take for the first sync.
const firstSyncTimeout = 10 * time.Minute

// round measures one contender, starting with empty tables. Without a prober it is not measured under load.
func (s *server) round(ctx context.Context, c contender, p *prober, o options) (r result, err error) {
	if err := s.restore(ctx, o); err != nil {
		return r, err
	}
	conn, err := nft.Dial()
	if err != nil {
		return r, err
	}
	defer conn.Close()
	said := &bytes.Buffer{}
	process := exec.CommandContext(ctx, c.args[0], c.args[1:]...)
	process.Stdout, process.Stderr, process.SysProcAttr = said, said, dieWithParent()
	start := time.Now()
	if err := process.Start(); err != nil {
		return r, err
	}
	defer func() {
		_ = process.Process.Kill()
		_ = process.Wait() // the error is that it was killed
		err = errors.Join(err, c.clean(conn))
	}()
	last, err := settle(ctx, conn, func() bool { return c.full(conn, o) })
	if err != nil {
		text := said.String()
		return r, fmt.Errorf("%w; what it said last:\n%s", err, text[max(0, len(text)-2000):])
	}
	r.first, r.firstCPU = last.Sub(start), cpu(process.Process.Pid)
	if err := waitIdle(ctx, process.Process.Pid); err != nil {
		return r, err
	}
	before := cpu(process.Process.Pid)
	for i := range o.changes {
		took, err := s.change(ctx, conn, i, o)
		if err != nil {
			return r, err
		}
		r.changes = append(r.changes, took)
	}
	r.changeCPU = cpu(process.Process.Pid) - before
	if p != nil {
		l, err := p.underLoad(ctx, process.Process.Pid, o)
		if err != nil {
			return r, err
		}
		r.load = "\t" + l.String()
	}
	r.rss, r.peak = memory(process.Process.Pid)
	return r, nil
}

const (
	// pollInterval is how often the generation number of nf_tables is read.
	pollInterval = 200 * time.Microsecond
	// settledAfter is how long the generation must stay the same before all counts as written.
	settledAfter = 2 * time.Second
)

// settle waits until nothing is written any more and everything has been written. It returns the time of the last
// write.
func settle(ctx context.Context, conn *nft.Conn, full func() bool) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, firstSyncTimeout)
	defer cancel()
	last := time.Now()
	before, err := conn.Generation()
	for err == nil {
		if err = pause(ctx, 5*time.Millisecond); err != nil {
			return last, fmt.Errorf("not all was written: %w", err)
		}
		var now uint32
		if now, err = conn.Generation(); now != before {
			before, last = now, time.Now()
		}
		if time.Since(last) < settledAfter {
			continue
		}
		if full() {
			return last, nil
		}
		if err = pause(ctx, settledAfter); err != nil {
			return last, fmt.Errorf("not all was written: %w", err)
		}
	}
	return last, err
}

// waitIdle waits until a process has finished the work after its start, such as garbage collection, for half a minute
// at most.
func waitIdle(ctx context.Context, pid int) error {
	const little = 5 * time.Millisecond
	for range 15 {
		before := cpu(pid)
		if err := pause(ctx, settledAfter); err != nil {
			return err
		}
		if cpu(pid)-before < little {
			break
		}
	}
	return nil
}

// change removes an endpoint of a service, and returns the time from the write to the changed rule. Then it waits
// before the next change, because a proxy may delay changes until some time has passed since the last one.
func (s *server) change(ctx context.Context, conn *nft.Conn, i int, o options) (time.Duration, error) {
	const between = 1500 * time.Millisecond
	before, err := conn.Generation()
	if err != nil {
		return 0, err
	}
	client := s.kube.DiscoveryV1().EndpointSlices(namespace)
	start := time.Now()
	if _, err := client.Update(ctx, slice(i%o.services, o.endpoints-1-i/o.services%(o.endpoints-1)), metav1.UpdateOptions{}); err != nil {
		return 0, err
	}
	for {
		now, err := conn.Generation()
		if err != nil {
			return 0, err
		}
		if now != before {
			break
		}
		if time.Since(start) > time.Minute {
			return 0, errors.New("a change of an endpoint is not written within a minute")
		}
		if err := pause(ctx, pollInterval); err != nil {
			return 0, err
		}
	}
	took := time.Since(start)
	return took, pause(ctx, between)
}
