// Package hollow has nodes without machines and containers without processes. Everything above package container is the
// real kubelet, so the API shows the same as for real nodes: for example, a pod that does not fit is rejected.
//
// Guarantees: pods get addresses that are unique in their node's range. A fake container does what the pod's
// annotations say, and otherwise runs until it is stopped. All hollow nodes of a process share one informer, one set of
// workers, one writer of heartbeats and one listener, so an idle node costs a few hundred bytes and one request every
// ten seconds.
//
// Nothing listens at a pod's address, volumes and environments are not resolved, and images need not exist.
//
// # Annotations
//
// Each applies to all containers of the pod that are not init containers. With a dot and a container's name
// (hollow.millrace.dev/exit-code.main) it applies to that container, of any kind. Durations are Go's: 1.5s, 2m.
//
//	hollow.millrace.dev/start-delay      how long a container takes to start
//	hollow.millrace.dev/run-for          when it exits by itself; by default it runs until it is stopped, and a Job's for 1 s
//	hollow.millrace.dev/exit-code        its exit code then: 0 by default
//	hollow.millrace.dev/crashes          how many of its first runs crash
//	hollow.millrace.dev/crash-after      how long those runs last: 1 s by default
//	hollow.millrace.dev/crash-code       their exit code: 1 by default
//	hollow.millrace.dev/stop-delay       how long it takes to stop; if that is longer than its grace period it is killed (137)
//	hollow.millrace.dev/ready-after      when its readiness and startup probes begin to succeed
//	hollow.millrace.dev/unready-after    when its readiness probe begins to fail
//	hollow.millrace.dev/unhealthy-after  when its liveness probe begins to fail
//	hollow.millrace.dev/log              what it prints when it starts: by default what a real node would run
//	hollow.millrace.dev/message          its termination message: by default the end of its log after a failure, if the policy says so
//	hollow.millrace.dev/cpu              its CPU usage in metrics.k8s.io: 1m by default
//	hollow.millrace.dev/shared-cpu       the CPU usage of all running pods of the same controller together, in equal parts
//	hollow.millrace.dev/memory           its memory usage: 8Mi by default
//
// The usage is read again for each request: kubectl annotate changes the load of a running pod.
//
// Init containers exit at once with 0, unless they have a script of their own.
package hollow
