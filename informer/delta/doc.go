// Package delta has the parts of client-go's first informers: a queue of deltas (FIFO), a Controller that runs a
// reflector into the queue and processes what it pops, a store that pushes its whole content on each change
// (UndeltaStore), and a short form of all of them (Mirror).
//
// A program that needs a cache and handlers uses package informer, whose Shared informers do more and cost less. This
// package is for programs that need the deltas themselves, or the complete set.
package delta
