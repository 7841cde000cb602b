package suite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/millrace/millrace/bench/internal/objects"
	"github.com/millrace/millrace/bench/internal/target"
)

type runFunc func(ctx context.Context, b *Bench) error

// Case is one measurement.
type Case struct {
	Name string
	// Op is the operation that is counted.
	Op string
	// Quick cases are part of the short run.
	Quick bool
	// Fixture names the servers that the case shares with others; Objects is the number of objects that they have from
	// the beginning.
	Fixture string
	Objects int
	// Prepare is run with each server before the fixture's first case, and only that case has it. nil creates Objects
	// pods. Settle lets memory settle afterwards.
	Prepare runFunc
	Settle  bool
	// Audit is the mode in which the fixture's servers write an audit log; empty: they write none.
	Audit string
	// Brief leaves the beginning of requests out of it.
	Brief bool
	// Fresh cases get new servers in each round. MostRounds limits the rounds if a second one would not be the same, or
	// would take long; zero: no limit.
	Fresh      bool
	MostRounds int
	Run        runFunc
	// Limit is the function for the limit; nil: the case has no limit.
	Limit runFunc
}

// Plan describes a run.
type Plan struct {
	Scale
	Cases   []Case
	Targets []target.Target
	Rounds  int
	// OneRoundAfter is the time after which cases get one round only; zero: never.
	OneRoundAfter time.Duration
	// Below is the directory in which the targets keep their data.
	Below string
	// Log receives a line for each step.
	Log io.Writer
}

// Outcome has all rounds of one target in one case.
type Outcome struct {
	Case    string   `json:"case"`
	Op      string   `json:"op"`
	Target  string   `json:"target"`
	Samples []Sample `json:"samples,omitempty"`
	Error   string   `json:"error,omitempty"`
}

// Run runs a plan. The error of a case is recorded in its outcome, and the others continue. An error of Run means that
// nothing more can be run.
func Run(ctx context.Context, p Plan) ([]Outcome, error) {
	below, err := os.MkdirTemp(p.Below, "millrace-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(below)
	r := &runner{Plan: p, began: time.Now(), below: below, memory: &samples{configMap: map[int]objects.Template{}}}
	for len(p.Cases) > 0 {
		n := 1
		for n < len(p.Cases) && p.Cases[n].Fixture == p.Cases[0].Fixture {
			n++
		}
		if err := r.fixture(ctx, p.Cases[:n]); err != nil {
			return r.outcomes, err
		}
		p.Cases = p.Cases[n:]
	}
	return r.outcomes, nil
}

type runner struct {
	Plan
	began    time.Time
	below    string
	memory   *samples
	outcomes []Outcome
}

// fixture runs the cases that share servers.
func (r *runner) fixture(ctx context.Context, cases []Case) error {
	if cases[0].Fresh {
		for _, c := range cases {
			if err := r.rounds(ctx, c, nil); err != nil {
				return err
			}
		}
		return nil
	}
	var servers []*target.Server
	defer func() { target.StopAll(servers) }()
	for _, t := range r.Targets {
		if t.Bare && !slices.ContainsFunc(cases, func(c Case) bool { return c.Limit != nil }) {
			continue
		}
		s, err := r.start(ctx, t, cases[0])
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			fmt.Fprintf(r.Log, "%v\n", err)
			continue // its cases report that it is not running
		}
		servers = append(servers, s)
	}
	if cases[0].Settle && r.Settle > 0 {
		if err := pause(ctx, r.Settle); err != nil {
			return err
		}
	}
	for _, c := range cases {
		if err := r.rounds(ctx, c, servers); err != nil {
			return err
		}
	}
	return nil
}

// pause waits, unless the context ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// start starts a target and creates its objects.
func (r *runner) start(ctx context.Context, t target.Target, first Case) (*target.Server, error) {
	t.Audit, t.Brief = first.Audit, first.Brief
	s, err := t.Start(ctx, r.below, first.Objects)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, prepareLimit)
	defer cancel()
	fmt.Fprintf(r.Log, "# %s is ready after %v", t.Name, s.Took.Round(time.Millisecond))
	began := time.Now()
	prepare := first.Prepare
	if prepare == nil {
		prepare = fixturePods
	}
	if !t.Bare {
		if err := prepare(ctx, r.bench(s, first)); err != nil {
			s.Stop()
			return nil, fmt.Errorf("\nprepare %s for %s: %w", t.Name, first.Name, err)
		}
	}
	if first.Objects > 0 && !t.Bare {
		fmt.Fprintf(r.Log, " and has %d objects after %v", first.Objects, time.Since(began).Round(time.Millisecond))
	}
	fmt.Fprintln(r.Log)
	return s, nil
}

func (r *runner) bench(s *target.Server, c Case) *Bench {
	return &Bench{Scale: r.Scale, Server: s, Objects: c.Objects, memory: r.memory, name: c.Name, log: r.Log}
}

// rounds runs the rounds of a case, with the targets in turns.
func (r *runner) rounds(ctx context.Context, c Case, servers []*target.Server) error {
	rounds := r.Rounds
	if c.MostRounds > 0 {
		rounds = min(rounds, c.MostRounds)
	}
	began := time.Now()
	byTarget := map[string]*Outcome{}
	for _, t := range r.Targets {
		if !t.Bare || c.Limit != nil {
			byTarget[t.Name] = &Outcome{Case: c.Name, Op: c.Op, Target: t.Name}
		}
	}
	for n := range rounds {
		if n > 0 && r.OneRoundAfter > 0 && time.Since(r.began) > r.OneRoundAfter {
			break
		}
		for _, t := range r.Targets {
			o, ok := byTarget[t.Name]
			if !ok || o.Error != "" {
				continue
			}
			sample, err := r.iteration(ctx, c, t, servers)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				o.Error = err.Error()
				fmt.Fprintf(r.Log, "%s, %s: %v\n", c.Name, t.Name, err)
				continue
			}
			o.Samples = append(o.Samples, sample)
		}
	}
	for _, t := range r.Targets {
		if o, ok := byTarget[t.Name]; ok {
			r.outcomes = append(r.outcomes, *o)
		}
	}
	fmt.Fprintf(r.Log, "# %s, %v\n", c.Name, time.Since(began).Round(100*time.Millisecond))
	return nil
}

// caseLimit is the timeout of one turn, prepareLimit that of creating the objects.
const (
	caseLimit    = 3 * time.Minute
	prepareLimit = 10 * time.Minute
)

var errNotRunning = errors.New("the target is not running")

func (r *runner) iteration(ctx context.Context, c Case, t target.Target, servers []*target.Server) (Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, caseLimit)
	defer cancel()
	var s *target.Server
	if c.Fresh {
		var err error
		if s, err = t.Start(ctx, r.below, c.Objects); err != nil {
			return Sample{}, err
		}
		defer s.Stop()
	} else {
		i := slices.IndexFunc(servers, func(s *target.Server) bool { return s.Name == t.Name })
		if i < 0 {
			return Sample{}, errNotRunning
		}
		s = servers[i]
	}
	run := c.Run
	if t.Bare {
		run = c.Limit
	}
	b := r.bench(s, c)
	err := run(ctx, b)
	if err == nil {
		err = ctx.Err() // the caller has given up
	}
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("not done within %v: %w", caseLimit, err)
		}
		return Sample{}, err
	}
	return b.finish(), nil
}
