// Package watch has what servers and clients share: typed events, and streams of them.
//
// A Stream is pulled: the receiver asks for the next event when it is ready for one. So a stream needs no goroutine and no
// buffer of its own, and a slow receiver delays nobody but itself. What every stream of this package guarantees:
//
//   - Ordered: events come in the order in which they were sent.
//   - Final: after Next returned an error nothing but errors follows. io.EOF says that the stream ended by itself,
//     ErrStopped that its receiver stopped it; any other error says what went wrong.
//   - Released: a stream that has ended, in whatever way, holds nothing any more, even if Stop is never called.
//   - Stoppable: Stop may be called at any time, from any goroutine, more than once. It releases what the stream holds
//     and makes a waiting Next return.
//
// A caller may not call Next from two goroutines at once, may not modify an event's object (others may have received
// the same one), and may not use a stream on after a Next whose context ended: that ends some streams.
package watch
