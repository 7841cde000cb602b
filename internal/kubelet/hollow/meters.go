package hollow

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/kubelet/stats"
)

// meters add up the CPU time that nodes and containers pretend to use. It never falls, even when the use changes, or
// when a container ends that counted for its node. Only what is asked for is kept.
type meters struct {
	mu    sync.Mutex // guards nodes
	nodes map[string]*meter
}

// meter has the CPU time of one node, under the empty name, and of its containers, under the IDs of their runs.
type meter struct {
	mu   sync.Mutex // guards what follows
	runs map[string]usage
	seen map[string]usage // since the last reading
}

// usage is a CPU time, and when it was added up.
type usage struct {
	at   time.Time
	nano uint64
}

// of returns the meter of a node, locked. Its reading ends with read.
func (m *meters) of(node string) *meter {
	m.mu.Lock()
	defer m.mu.Unlock()
	one := m.nodes[node]
	if one == nil {
		if m.nodes == nil {
			m.nodes = map[string]*meter{}
		}
		one = &meter{}
		m.nodes[node] = one
	}
	one.mu.Lock()
	one.seen = map[string]usage{}
	return one
}

// add returns the CPU time of a run that began at some time and uses so many millicores since the last reading.
func (m *meter) add(run string, since time.Time, now metav1.Time, milli int64) *stats.CPU {
	u, known := m.runs[run]
	if !known {
		u.at = since
	}
	rate := uint64(milli) * 1e6
	if passed := now.Sub(u.at); passed > 0 {
		u = usage{now.Time, u.nano + uint64(passed.Seconds()*float64(rate))}
	}
	m.seen[run] = u
	return &stats.CPU{Time: now, NanoCores: &rate, Total: u.nano}
}

// read forgets the containers that were not seen, and unlocks the meter.
func (m *meter) read() {
	m.runs, m.seen = m.seen, nil
	m.mu.Unlock()
}
