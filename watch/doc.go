// Package watch has typed events, and streams of them, for servers and clients.
//
// A Stream is pulled: the receiver asks for the next event when it is ready for one. So a stream needs no goroutine and
// no buffer, and a slow receiver delays only itself. Guarantees of every stream of this package:
//
//   - Ordered: events come in the order in which they were sent.
//   - Final: after Next has returned an error it only returns errors. io.EOF means that the stream ended by itself,
//     ErrStopped that its receiver stopped it; any other error says what went wrong.
//   - Released: a stream that has ended for any reason holds no resources, even if Stop is never called.
//   - Stoppable: Stop may be called at any time, from any goroutine, more than once. It releases what the stream holds
//     and makes a waiting Next return.
//
// A caller may not call Next from two goroutines at once, may not modify an event's object (other receivers may have
// the same one), and may not use a stream after a Next whose context ended: that ends some streams.
package watch
