// Package dispatch tells an informer's handlers what has changed. It knows who has to be told of what, in which goroutine
// and when; what a handler is told is the informer's matter.
//
// For each handler it guarantees: calls are serial; it starts with everything in the cache at one moment, and from there
// on no change of state is left out; changes of one object that wait are merged, so that a backlog is bounded by the
// number of objects. A handler that blocks delays the others by some milliseconds at most, and not again for a while.
package dispatch
