// Package hollow pretends: nodes without machines and containers without processes. Everything above the seam of
// package container is the real kubelet, so that the API shows what a real node would show: a pod that does not fit is
// refused, too.
//
// What is guaranteed: pods get addresses that are unique in their node's range; a pretended container does what the
// pod's annotations say and otherwise runs until it is told to stop; all hollow nodes of a process share one informer,
// one set of workers, one writer of heartbeats and one listener, so that an idle node costs some hundred bytes and
// one request every ten seconds.
//
// What a caller may not assume: that anything listens at a pod's address, that volumes and environment are looked up,
// or that images exist anywhere.
//
// # Annotations
//
// Each applies to all containers of the pod that are not init containers, or, with a dot and a container's name behind
// it (hollow.millrace.dev/exit-code.main), to that container of any sort. Durations are Go's: 1.5s, 2m.
//
//	hollow.millrace.dev/start-delay      how long a container takes to start
//	hollow.millrace.dev/run-for          after this time it ends by itself; without it, it runs until it is stopped, and a Job's for 1 s
//	hollow.millrace.dev/exit-code        how it ends then: 0 by default
//	hollow.millrace.dev/crashes          how many of its first runs crash
//	hollow.millrace.dev/crash-after      how long those last: 1 s by default
//	hollow.millrace.dev/crash-code       how they end: 1 by default
//	hollow.millrace.dev/stop-delay       how long it takes to stop; with more than its grace it is killed (137)
//	hollow.millrace.dev/ready-after      when its readiness and startup probes begin to succeed
//	hollow.millrace.dev/unready-after    when its readiness probe begins to fail
//	hollow.millrace.dev/unhealthy-after  when its liveness probe begins to fail
//	hollow.millrace.dev/log              what it prints when it starts
//	hollow.millrace.dev/message          what it leaves as its termination message: by default the end of its log after a failure, where the policy says so
//	hollow.millrace.dev/cpu              what it uses of the CPU, as metrics.k8s.io tells: 1m by default
//	hollow.millrace.dev/shared-cpu       what all running pods of the same controller use together, in equal parts
//	hollow.millrace.dev/memory           what it uses of memory: 8Mi by default
//
// What is used is read anew each time: kubectl annotate changes the load of a pod that runs.
//
// Init containers end at once, and well, unless a script of their own says otherwise.
package hollow
