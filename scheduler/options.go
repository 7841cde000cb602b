package scheduler

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/scheduler/extender"
	"github.com/millrace/millrace/scheduler/internal/backlog"
	"github.com/millrace/millrace/scheduler/internal/ruleset"
	"github.com/millrace/millrace/scheduler/plugin"
	"github.com/millrace/millrace/scheduler/rules"
)

// Options of a scheduler. [For] fills in those that have no default.
type Options struct {
	// Watched is what the scheduler reads. Somebody else runs these informers.
	Watched Watched
	// API is where it writes.
	API API
	// Writer writes what rules for single pods have decided: about volumes, for instance. nil means that no such pod is bound.
	Writer plugin.Writer
	// Recorder records events about pods. nil means nobody does.
	Recorder loop.Recorder

	// Profiles says by which rules pods are placed, depending on the scheduler
	// that they name. None means one, for default-scheduler, with the rules of
	// kube-scheduler.
	Profiles []Profile
	// Extenders are programs beside the scheduler that have a say. While they are asked about a pod no other is placed.
	Extenders []*extender.Extender
	// Backlog holds the times after which pods are tried again.
	Backlog Backlog
	// Parallelism is how many bindings may be on their way at once. 0 means 128.
	Parallelism int
	// Grace is how long Run waits at its end for the answers to bindings. 0 means 5 s.
	Grace time.Duration

	Metrics Metrics      // nil means nobody counts
	Logger  *slog.Logger // nil means discard
}

// Backlog holds the times after which pods are tried again. The zero value has kube-scheduler's.
type Backlog = backlog.Options

// For returns the options for scheduling with a process's clients. It is to be
// called before these are run.
func For(c *loop.Clients) Options {
	c = c.As("kube-scheduler").Named(corev1.DefaultSchedulerName)
	return Options{
		Watched: Watched{
			Pods:                   loop.Informer(c, informer.For(c.Kube.CoreV1().Pods(""))),
			Nodes:                  loop.Informer(c, informer.For(c.Kube.CoreV1().Nodes())),
			Namespaces:             loop.Informer(c, informer.For(c.Kube.CoreV1().Namespaces())),
			Services:               loop.Informer(c, informer.For(c.Kube.CoreV1().Services(""))),
			ReplicationControllers: loop.Informer(c, informer.For(c.Kube.CoreV1().ReplicationControllers(""))),
			ReplicaSets:            loop.Informer(c, informer.For(c.Kube.AppsV1().ReplicaSets(""))),
			StatefulSets:           loop.Informer(c, informer.For(c.Kube.AppsV1().StatefulSets(""))),
			Budgets:                loop.Informer(c, informer.For(c.Kube.PolicyV1().PodDisruptionBudgets(""))),
			Storage:                storageOf(c),
			Devices:                devicesOf(c),
		},
		API:      Server(c.Kube.CoreV1()),
		Writer:   writer{c.Kube},
		Recorder: c.Recorder,
		Logger:   c.Log,
	}
}

// Watched is what a scheduler reads. Pods and Nodes must be there. Without
// Namespaces no affinity selects namespaces by label; without the others the pods that
// they select are not spread by default, and without Budgets nobody is protected from preemption.
type Watched struct {
	Pods                   *informer.Shared[*corev1.Pod]
	Nodes                  *informer.Shared[*corev1.Node]
	Namespaces             *informer.Shared[*corev1.Namespace]
	Services               *informer.Shared[*corev1.Service]
	ReplicationControllers *informer.Shared[*corev1.ReplicationController]
	ReplicaSets            *informer.Shared[*appsv1.ReplicaSet]
	StatefulSets           *informer.Shared[*appsv1.StatefulSet]
	Budgets                *informer.Shared[*policyv1.PodDisruptionBudget]
	Storage                Storage
	Devices                Devices
}

// Profile is how the pods of one scheduler name are placed.
type Profile struct {
	SchedulerName string      // empty: default-scheduler
	Rules         *plugin.Set // nil: those of kube-scheduler
	BeforeBind    []BeforeBind
	NoPreemption  bool // no pod has to leave for one of these
	// Candidates says how many nodes are compared for a preemption. nil means kube-scheduler's numbers.
	Candidates *Candidates

	compiled *ruleset.Set
}

// Candidates is how many nodes are compared for a preemption: Percent of those where pods could leave, and at least Least.
type Candidates struct{ Percent, Least int }

// BeforeBind does what must be done before a pod is bound to the node that was
// chosen for it. It may take its time: the pod counts on the node meanwhile,
// and other pods are placed. On an error the pod is not bound and tried again later.
type BeforeBind interface {
	BeforeBind(ctx context.Context, pod *plugin.Pod, node string) error
}

func (o Options) withDefaults() Options {
	if len(o.Profiles) == 0 {
		o.Profiles = []Profile{{}}
	}
	profiles := make([]Profile, len(o.Profiles))
	for i, p := range o.Profiles {
		p.SchedulerName = cmp.Or(p.SchedulerName, corev1.DefaultSchedulerName)
		if p.Rules == nil {
			p.Rules = rules.Defaults()
		}
		if p.Candidates == nil {
			p.Candidates = &Candidates{Percent: comparedPercent, Least: comparedLeast}
		}
		profiles[i] = p
	}
	o.Profiles = profiles
	o.Parallelism = cmp.Or(o.Parallelism, 128)
	o.Grace = cmp.Or(o.Grace, 5*time.Second)
	if o.Metrics == nil {
		o.Metrics = noMetrics{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}
