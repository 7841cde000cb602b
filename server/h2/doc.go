// Package h2 serves HTTP/2 to very many readers of the same things.
//
// It takes the place of net/http's HTTP/2 on connections that an http.Server has accepted and secured; handlers, requests
// and answers are net/http's. What differs is which goroutine does the work. In net/http a handler passes each piece of an
// answer to the connection's goroutine and waits, which costs two changes of goroutine, and often a write to the network,
// for each piece. Here a handler queues its frames itself, and writes the whole queue unless another one is writing. So an
// answer needs no other goroutine, and the more there is to send, the more goes out in one write. Handlers run on
// goroutines that have served before, whose stacks have grown already.
//
// Guarantees:
//   - The frames of a stream keep their order, and no stream waits for another stream's window.
//   - What waits to be sent is bounded for each connection: a handler that has more waits. What has come and has not been read is bounded
//     by the windows.
//   - Streams that wait for room take turns. Bytes that a handler has queued are sent even if the goroutine that is writing stops.
//   - A client that reads nothing holds up its own handlers only, and those for at most twice Options.WriteTimeout. Its frames are still read,
//     since the goroutine that reads never writes, and closing other connections does not wait for it.
//   - An answer whose handler has returned waits at most Options.WriteTimeout for a window of the client.
//   - A client that is told to go away may send elsewhere whatever was not served: none of that was begun.
//   - A request's context ends when its client cancels it or goes away, and when its handler returns.
//   - When Close or Wait returns, no handler and no goroutine of a connection is running any more.
//
// A client that nobody knows can make the server hold little. It has 100 requests at the same time, until Authenticated is called for one
// of them; Unauthenticated ends its connection. Requests are charged for the memory that is made of them, not for their bytes on the wire.
// Of the answers that nobody takes a bounded number of bytes is kept. Frames that no client needs in numbers, such as requests that are
// taken back at once, end the connection. Package attacks carries the known attacks out.
//
// Pushed answers, priorities and extended CONNECT are not offered.
package h2
