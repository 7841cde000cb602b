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
	"github.com/millrace/millrace/internal/scheduler/extender"
	"github.com/millrace/millrace/internal/scheduler/internal/backlog"
	"github.com/millrace/millrace/internal/scheduler/internal/ruleset"
	"github.com/millrace/millrace/internal/scheduler/plugin"
	"github.com/millrace/millrace/internal/scheduler/rules"
	"github.com/millrace/millrace/loop"
)

// Options of a scheduler. [For] sets those without a default.
type Options struct {
	// Watched are the informers. The caller runs them.
	Watched Watched
	// API sends the scheduler's requests.
	API API
	// Writer writes the decisions of pod rules, for example about volumes. nil means that pods with such decisions are
	// not bound.
	Writer plugin.Writer
	// Recorder records events about pods. nil means no events.
	Recorder loop.Recorder

	// Profiles have the rules for pods, by scheduler name. None means one profile for default-scheduler with
	// kube-scheduler's rules.
	Profiles []Profile
	// Extenders are called for pods. While they are called for a pod no other pod is placed.
	Extenders []*extender.Extender
	// Backlog has the delays after which pods are tried again.
	Backlog Backlog
	// Parallelism is the maximum number of concurrent bindings. 0 means 128.
	Parallelism int
	// Grace is how long Run waits for the answers to bindings before it returns. 0 means 5 s.
	Grace time.Duration

	Metrics Metrics      // nil: none
	Logger  *slog.Logger // nil: discard
}

// Backlog has the delays after which pods are tried again. The zero value has kube-scheduler's.
type Backlog = backlog.Options

// For returns the options for scheduling with a process's clients. Call it before the clients are run.
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

// Watched are the scheduler's informers. Pods and Nodes are required. Without Namespaces no affinity selects namespaces
// by label. Without the others, the pods that they select are not spread by default; without Budgets no pod is
// protected from preemption.
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

// Profile has the rules for the pods of one scheduler name.
type Profile struct {
	SchedulerName string      // empty: default-scheduler
	Rules         *plugin.Set // nil: those of kube-scheduler
	BeforeBind    []BeforeBind
	NoPreemption  bool // its pods do not preempt others
	// Candidates is how many nodes are compared for a preemption. nil means kube-scheduler's numbers.
	Candidates *Candidates

	compiled *ruleset.Set
}

// Candidates is the number of nodes that are compared for a preemption: Percent of the nodes where preemption may help,
// and at least Least.
type Candidates struct{ Percent, Least int }

// BeforeBind does what must be done before a pod is bound to its chosen node. It may block: the pod counts on the node
// meanwhile, and other pods are placed. On an error the pod is not bound, and is tried again later.
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
