// Package h2 serves HTTP/2 to very many readers of the same things.
//
// It takes the place of net/http's HTTP/2 for connections that an http.Server has accepted and secured; handlers, their
// requests and their answers are net/http's. What it does otherwise is who does the work. In net/http each piece of an
// answer is handed to the connection's goroutine and waited for, which costs two changes of goroutine and often a write to
// the network for each. Here a handler puts its frames behind those that wait already, and writes all of them if nobody
// else is writing: so an answer needs no other goroutine, and the more there is to send, the more goes out in one write.
// And handlers run on goroutines that are used again, whose stacks have grown already.
//
// Guarantees:
//   - Frames of one stream keep their order, and no stream's frames wait for another stream's window.
//   - What waits to be sent is bounded for each connection; who wants to add more waits. What has been received and not
//     been read is bounded by the windows.
//   - Streams that wait for room take turns. What one handler leaves to be sent is sent though its writer turns to other things.
//   - A client that takes nothing keeps nobody but its own handlers, and those for a minute at most (Options.Stall). The
//     reader never writes, so such a client is still heard; and no other connection waits for it, not even to be closed.
//   - A client that is told to go away may ask elsewhere for whatever was not served: none of that has been begun.
//   - A request's context ends when its client cancels it or goes away, and when its handler returns.
//   - Close and Wait return when no handler and no goroutine of a connection is running any more.
//
// Pushed answers, priorities and extended CONNECT are not offered.
package h2
