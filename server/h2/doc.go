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
//   - The frames of a stream keep their order, and no stream waits for another one's window.
//   - What waits to be sent is bounded for each connection: a handler with more waits. What has come and has not been read
//     is bounded by the windows.
//   - Streams that wait for room take turns. What a handler leaves to be sent is sent, whatever the one that is writing
//     does next.
//   - A client that reads nothing holds up its own handlers only, and those for at most twice Options.Stall. It is still
//     heard, since the goroutine that reads never writes, and closing other connections does not wait for it.
//   - A client that is told to go away may ask elsewhere for whatever was not served: none of that was begun.
//   - A request's context ends when its client cancels it or goes away, and when its handler returns.
//   - When Close or Wait returns, no handler and no goroutine of a connection is running any more.
//
// Pushed answers, priorities and extended CONNECT are not offered.
package h2
