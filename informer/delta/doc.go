// Package delta has the parts that Kubernetes builds its first informers of: a queue of deltas (FIFO), a Controller that
// runs a reflector into it and processes what comes out, a store that pushes all of its content on each change
// (UndeltaStore), and the small form that puts them together (Mirror).
//
// A program that wants a cache and handlers uses package informer, whose Shared informers do more and cost less. This
// package is for programs that want the deltas themselves, or the complete set.
package delta
