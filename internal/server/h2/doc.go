// Package h2 serves HTTP/2 to very many clients that read the same objects.
//
// It replaces net/http's HTTP/2 on connections that an http.Server has accepted and secured; handlers, requests and
// responses are net/http's. What differs is which goroutine does the work. In net/http a handler passes each piece of
// an answer to the connection's goroutine and waits, which costs two switches of goroutine, and often a write to the
// network, for each piece. Here a handler queues its frames itself, and writes the whole queue unless another goroutine
// is writing. So an answer needs no other goroutine, and under load one write carries more frames. Handlers run on
// goroutines that are reused, because their stacks have already grown.
//
// Guarantees:
//   - The frames of a stream keep their order, and no stream waits for another stream's window.
//   - What waits to be sent is bounded for each connection: a handler that has more waits. What has arrived and has not
//     been read is bounded by the windows.
//   - Streams that wait for space in the queue take turns. Bytes that a handler has queued are sent even if the
//     goroutine that is writing stops.
//   - When a handler has returned, no goroutine waits until its client reads the rest of the answer: the connection
//     keeps the bytes that are left.
//   - A client that reads nothing blocks only its own handlers, and those for at most twice Options.WriteTimeout. Its
//     frames are still read, since the goroutine that reads never writes, and closing other connections does not wait
//     for it.
//   - An answer whose handler has returned waits at most Options.WriteTimeout for a window of the client.
//   - After a GOAWAY frame the client may repeat every request that it does not cover on another connection: none of
//     them was started.
//   - A request's context ends when its client cancels it or disconnects, and when its handler returns.
//   - When Close or Wait returns, no handler and no goroutine of a connection is running any more.
//
// An unauthenticated client can make the server use only a little memory. It may have 100 requests open at the same
// time, until Authenticated is called for one of them; Unauthenticated ends its connection. Requests are charged for
// the memory that they occupy, not for their bytes on the wire. Of answers that a client does not read, a bounded
// number of bytes is kept. Frames that no client needs in large numbers, such as requests that are cancelled at once,
// end the connection. Package attacks carries out the known attacks.
//
// Server push, priorities and extended CONNECT are not supported.
package h2
