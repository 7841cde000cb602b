// Package informer keeps a local copy of all objects of one kind in a Kubernetes API server, and calls handlers when
// they change.
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
//     the source.
//   - Atomic: a list, first or repeated, replaces the cache in one step. Before the first list is complete, reads find
//     nothing and no handler is called.
//   - Snapshot: List, By and the other loops show the state at one moment, however long the loop takes, and hold no
//     lock.
//   - ReadYourWrites: after WaitFor has returned, reads show the given version of the collection or a later one.
//
// For one handler:
//
//   - Serial: its functions are called one at a time. Handlers do not wait for one another: a handler that blocks does
//     not stop the others. If a handler panics, the panic is reported and the handler goes on with the next change.
//   - Complete: it first receives an Added for every object in the cache at one moment (the initial objects). After
//     that it misses no change of state.
//   - Ordered: for one object it receives Added, any number of Updated, Deleted, and so on. The old object of an
//     Updated is the one that the handler received last. An object that was deleted and created again with the same
//     name and another UID is reported as Deleted and Added, never as Updated.
//   - Coalesced: changes of an object that a handler has not received yet are merged. So a handler's backlog is bounded
//     by the number of objects, not by the number of events.
//   - Truthful: an object that vanished while there was no watch is reported as Deleted with its last known state and
//     finalStateUnknown.
//
// For shutdown: when Run has returned, nothing of the informer is running.
//
// # What a caller may not assume
//
// Objects are shared: copy an object before you modify it. Two reads of one object may return different pointers,
// because large caches keep most of their objects encoded and decode them when they are read. Handlers receive changes
// at different times, usually a little later than the cache.
package informer
