package core

import "github.com/millrace/millrace/internal/server/resource"

// workloads returns the kinds of the group that run containers, and nodes.
func workloads() []*resource.Kind {
	return []*resource.Kind{
		Bindings(),
		Nodes(),
		Pods(),
		PodTemplates(),
		ReplicationControllers(),
	}
}
