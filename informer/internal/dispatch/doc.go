// Package dispatch calls an informer's handlers for changes. It decides which handler is called for which change, in
// which goroutine and when. What the handler's functions receive is decided by the informer.
//
// For each handler it guarantees: Calls are serial. The handler first receives every object in the cache at one moment,
// and misses no change of state after that. Waiting changes of one object are merged, so a backlog is bounded by the
// number of objects. A handler that blocks delays the others by some milliseconds at most, and not again for a while.
package dispatch
