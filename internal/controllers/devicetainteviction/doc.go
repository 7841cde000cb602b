// Package devicetainteviction deletes the pods that use devices with taints of effect NoExecute, as soon as their
// claims tolerate them no longer. Devices have taints in their resource slices, and from device taint rules.
//
// What is guaranteed: a pod goes when the time is over for which its claim tolerates a taint of one of its devices,
// counted from when the taint was added, and never if it tolerates all of them without end. All of this is worked out
// from the objects anew each time, so a restart forgets nothing. A pod is marked with the condition DisruptionTarget
// before it is deleted. A rule's status says how many pods it still evicts.
//
// What may not be assumed: that pods without a node are touched, which a scheduler puts elsewhere, or that a rule's
// count of evicted pods outlives the process.
package devicetainteviction
