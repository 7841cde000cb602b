package scheduler

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace/millrace/internal/scheduler/internal/ruleset"
)

// Scheduler assigns pods to nodes. New makes one; Run does the work.
type Scheduler struct {
	options Options
}

// New returns a scheduler. It does nothing before Run.
func New(options Options) *Scheduler {
	return &Scheduler{options: options.withDefaults()}
}

// Run schedules until ctx ends, and then returns nil. It starts with the state of the informers, so it can be run
// again, for example when the process becomes the leader another time.
func (s *Scheduler) Run(ctx context.Context) error {
	if err := s.check(); err != nil {
		return err
	}
	k := newKnowledge(s.options)
	watching := k.follow()
	defer k.clearSizes()
	s.options.Metrics.Count(k.counts)
	defer s.options.Metrics.Count(nil)
	defer watching.close()
	if err := watching.synced(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("scheduler: %w", err)
	}
	newBinder(k).run(ctx, newChooser(ctx, k))
	return nil
}

func (s *Scheduler) check() error {
	if s.options.Watched.Pods == nil || s.options.Watched.Nodes == nil || s.options.API == nil {
		return errors.New("scheduler: Options need informers of pods and nodes, and an API: see For")
	}
	names := make(map[string]bool)
	for i := range s.options.Profiles {
		p := &s.options.Profiles[i]
		if names[p.SchedulerName] {
			return fmt.Errorf("scheduler: two profiles are named %q", p.SchedulerName)
		}
		names[p.SchedulerName] = true
		compiled, err := ruleset.Compile(p.Rules)
		if err != nil {
			return fmt.Errorf("scheduler: profile %q: %w", p.SchedulerName, err)
		}
		p.compiled = compiled
	}
	return nil
}
