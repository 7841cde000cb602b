package core

import "github.com/millrace/millrace/server/resource"

// workloads are the kinds of the group that run containers, and where they run.
func workloads() []*resource.Kind {
	return []*resource.Kind{
		Bindings(),
		Nodes(),
		Pods(),
		PodTemplates(),
		ReplicationControllers(),
	}
}
