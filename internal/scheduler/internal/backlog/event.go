package backlog

import (
	"math/bits"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
)

// Event is why a pod comes to a part of the queue.
type Event uint8

// The events that are no change of the cluster. [EventOf] returns the others.
const (
	PodAdded Event = iota
	PodUpdated
	GatesRemoved
	AttemptFailed
	BackoffEnded
	TakenEarly // before its back-off has ended, because no other pod was active
	TimedOut   // it was unschedulable for too long
	Activated  // by the scheduler itself
	firstChange
)

// events are kube-scheduler's names. Those of changes are in the order of the bits of a [cluster.Change].
var events = [...]string{
	"UnschedulablePodAdd", "UnschedulablePodUpdate", "UnschedulablePodUpdatePodSchedulingGatesEliminated",
	"ScheduleAttemptFailure", "BackoffComplete", "PopFromBackoffQ", "UnschedulableTimeout", "ForceActivate",

	"NodeAdd", "NodeUpdateNodeAllocatable", "NodeUpdateNodeLabel", "NodeUpdateNodeTaint", "AssignedPodAdd", "AssignedPodDelete", "AssignedPodUpdate",
	"NamespaceUpdate", "NodeDelete", "PersistentVolumeClaimUpdate", "PersistentVolumeUpdate", "StorageClassUpdate", "ResourceClaimUpdate", "CSINodeUpdate",
	"DeviceClassUpdate",
}

// EventOf returns the event for a change of the cluster. Of several changes at the same time the first one counts.
func EventOf(change cluster.Change) Event {
	return firstChange + Event(bits.TrailingZeros32(uint32(change)))
}

// String returns kube-scheduler's name of the event.
func (e Event) String() string { return events[e] }

// incoming counts the pods that have come to the parts of the queue.
type incoming [inFlight][len(events)]uint64

// Incoming calls f with the number of pods that have come to each part of the queue, by the event.
func (q *Queue) Incoming(f func(queue string, because Event, pods uint64)) {
	for to := range q.incoming {
		for e, n := range q.incoming[to] {
			if n > 0 {
				f(parts[to], Event(e), n)
			}
		}
	}
}

// parts are kube-scheduler's names. It counts pods with gates as unschedulable here.
var parts = [inFlight]string{active: "active", backingOff: "backoff", unschedulable: "unschedulable", gated: "unschedulable"}
