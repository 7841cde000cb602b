package scheduler

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/scheduler"
	"github.com/millrace/millrace/internal/scheduler/rules"
	"github.com/millrace/millrace/loop"
)

// Options of a scheduler. The zero value is Kubernetes' scheduler.
type Options struct {
	// Name is the name of the scheduler: pods with this spec.schedulerName are placed, and no others. Empty means
	// default-scheduler, which pods have that name no other.
	Name string
	// Rules are applied beside Kubernetes' own. Their names must differ from each other and from those, for example
	// "Racks".
	Rules []Rule
	// NoPreemption keeps the scheduler from deleting pods with a lower priority to make room. By default it does as
	// Kubernetes does.
	NoPreemption bool
}

// New returns a scheduler that works with the clients of a process, which the caller runs (loop.Run). It does nothing
// before its Run, which returns an error if the rules cannot be used.
func New(clients *loop.Clients, options Options) loop.Runner {
	set := rules.Defaults()
	for _, rule := range options.Rules {
		rule.addTo(set)
	}
	name := cmp.Or(options.Name, corev1.DefaultSchedulerName)
	inner := scheduler.For(clients)
	inner.Profiles = []scheduler.Profile{{SchedulerName: name, Rules: set, NoPreemption: options.NoPreemption}}
	inner.Recorder = clients.Named(name).Recorder
	if err := check(options.Rules); err != nil {
		return loop.Func(func(context.Context) error { return err })
	}
	return scheduler.New(inner)
}

// check returns an error if a rule can do nothing.
func check(all []Rule) error {
	for _, rule := range all {
		switch {
		case rule.Name == "":
			return fmt.Errorf("scheduler: a rule has no name")
		case rule.Read == nil:
			return fmt.Errorf("scheduler: the rule %q has no Read", rule.Name)
		case rule.Filter == nil && rule.Score == nil:
			return fmt.Errorf("scheduler: the rule %q has neither a Filter nor a Score", rule.Name)
		case rule.Weight < 0:
			return fmt.Errorf("scheduler: the weight of the rule %q is negative", rule.Name)
		}
	}
	return nil
}
