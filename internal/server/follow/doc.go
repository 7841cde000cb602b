// Package follow keeps what this server makes of a few kinds of objects in step with the log. It has two shapes:
//
//   - A Stream gives its owner all objects of its kinds, and then each change. It serves who keeps an index, or acts when
//     something changes: roles, definitions, APIServices, priority levels, the pods of nodes.
//   - A Value is compiled from all objects, when somebody asks for it and something has changed. It serves where objects
//     are few and changes rare: webhooks, policies.
//
// Neither has a goroutine: both take in what has happened when they are asked to.
//
// What is guaranteed of a Stream: after CatchUp its owner has been given every change that the watch cache had before the
// call, those of a kind in their order and none twice. When that cannot be continued, because the place in the history
// has left the window or the store went back to an older state, Begin says so, and the whole state comes again. What the
// cache must have before that is the caller's decision: see docs/freshness.md.
//
// What is guaranteed of a Value: what Now returns is made of a state that has every change that this server had
// acknowledged before the call and, if the store is shared, every change that any server had acknowledged. As long as
// nothing changes, Now takes no lock, decodes nothing, and costs some tens of nanoseconds; with a shared store also a
// question to it, which callers share. What is returned never changes.
//
// A caller may not assume that a Stream's kinds have come to the same revision: Reached and Shown tell.
package follow
