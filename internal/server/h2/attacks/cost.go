package attacks

import (
	"context"
	"errors"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"time"

	"github.com/millrace/millrace/internal/cputime"
)

// Cost is what a server needs for an attack.
type Cost struct {
	// Held is the live heap and the stacks; Peak is the largest resident memory. Both are in bytes.
	Held, Peak int64
	CPU        time.Duration
	// Handlers is how many ran; AtOnce is how many ran at the same time.
	Handlers, AtOnce int64
	// Ended is how many connections the server ended or did not accept.
	Ended int64
}

// less returns what was added since an earlier measurement.
func (c Cost) less(first Cost) Cost {
	c.Held -= first.Held
	c.Peak -= first.Peak
	c.CPU -= first.CPU
	return c
}

// cost measures this process. The cost of the measurement itself is excluded.
func (t *target) cost() Cost {
	c := Cost{CPU: cputime.Process(), Peak: resident(), Handlers: t.started.Load(), AtOnce: t.most.Load()}
	for range 3 { // pools are emptied by the second collection, and stacks shrink by half in each
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	c.Held = int64(m.HeapAlloc + m.StackInuse)
	return c
}

var maxResident = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// resident returns the largest resident memory of this process; zero if the system does not report it.
func resident() int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	m := maxResident.FindSubmatch(text)
	if m == nil {
		return 0
	}
	kib, _ := strconv.ParseInt(string(m[1]), 10, 64)
	return kib << 10
}

// begin makes one request, so that a server's one-time setup is not charged to the attack.
func (a *Attacker) begin() {
	if c := a.open(Opening{}); c != nil {
		c.head(stream(0), true, sized(1))
		c.settle()
		c.close()
	}
	a.Refused.Store(0)
}

// Measure carries out an attack on a new server, and returns its cost without that of the server itself.
func Measure(ctx context.Context, kind Kind, attack Attack) (cost Cost, err error) {
	p, err := Start(ctx, kind, attack.streams())
	if err != nil {
		return Cost{}, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	a := &Attacker{address: p.Address, authenticated: attack.Authenticated}
	defer a.Close()
	a.begin()
	first, err := p.Cost()
	if err != nil {
		return Cost{}, err
	}
	attack.Run(a)
	all, err := p.Cost()
	if err != nil {
		return Cost{}, err
	}
	cost = all.less(first)
	cost.Ended = a.Refused.Load()
	return cost, nil
}
