// Package informer keeps a local copy of one kind of object, as a Kubernetes API server has it, and tells handlers what
// changes.
//
// A Source lists and watches; For makes one from any client-go typed client. A Shared informer follows its source and
// serves reads and any number of handlers:
//
//	pods := informer.New(informer.For(clientset.CoreV1().Pods("")), informer.Options[*corev1.Pod]{})
//	pods.Handle(informer.Handler[*corev1.Pod]{Changed: func(key informer.Key) { queue.Add(key) }})
//	err := pods.Run(ctx)
//
// # Guarantees
//
// For the cache:
//
//   - Converging: whatever happens to the connection, once the source can be reached again the cache becomes equal to
//     what the source has.
//   - Atomic: a first or repeated list takes effect as a whole. Before the first one is complete, reads find nothing
//     and handlers hear nothing.
//   - Snapshot: List, By and the other loops show one moment, however long the loop takes, and hold no lock.
//   - ReadYourWrites: after WaitFor returned, reads show the given version of the collection or a later one.
//
// For one handler:
//
//   - Serial: its functions are called one at a time. Handlers do not wait for one another: one that blocks delays
//     nobody, one that panics is reported and goes on with the next change.
//   - Complete: it starts with an Added for everything in the cache at one moment (these are the initial ones) and
//     from there on no change of state is left out.
//   - Ordered: for one object it hears Added, any number of Updated, Deleted, and so on; the old object of an Updated
//     is the one that it was told last. An object that was deleted and made again, under the same name but with
//     another UID, is reported as Deleted and Added, never as Updated.
//   - Coalesced: changes of an object that a handler has not come round to are merged, so that a handler's backlog is
//     bounded by the number of objects and never by the number of events.
//   - Truthful: an object that vanished while nobody was watching is reported as Deleted with the last state that is
//     known, and marked so.
//
// For shutdown: when Run has returned, nothing is running any more.
//
// # What a caller may not assume
//
// Objects are shared: who wants to change one works on a copy. Two reads of one object need not return the same
// pointer, since large caches keep most of their objects in encoded form and decode those that are asked for. Different
// handlers are not in step, neither with each other nor with the cache: the cache is usually a little ahead.
package informer
