package envtest

import "github.com/millrace/millrace"

// Loops are the control loops that run beside the API server. The zero value is none of them.
type Loops struct {
	// All runs everything: all control loops, the scheduler, and a hollow node if Nodes is zero.
	All bool
	// GarbageCollection lets dependents go with their owners.
	GarbageCollection bool
	// NamespaceDeletion empties namespaces that are being deleted, and lets them go.
	NamespaceDeletion bool
	// Scheduler gives pods a node.
	Scheduler bool
	// Nodes is how many hollow nodes run: kubelets whose containers are pretended. The loop that lets pods onto nodes
	// that are ready runs with them.
	Nodes int
	// Controllers are further loops, by the names that kube-controller-manager's --controllers takes, such as
	// "deployment-controller" or "*".
	Controllers []string
}

func (l Loops) set(o *millrace.Options) {
	o.Controllers, o.NoScheduler, o.Nodes = append([]string{}, l.Controllers...), !l.Scheduler && !l.All, l.Nodes
	if l.GarbageCollection {
		o.Controllers = append(o.Controllers, "garbage-collector-controller")
	}
	if l.NamespaceDeletion {
		o.Controllers = append(o.Controllers, "namespace-controller")
	}
	if l.Nodes > 0 {
		o.Controllers = append(o.Controllers, "node-lifecycle-controller")
	}
	if l.All {
		o.Controllers, o.Nodes = []string{"*"}, max(l.Nodes, 1)
	}
}
