package answer

// chunk is how much of a long response is buffered before it is written: large enough that the connection's own cost of
// a write does not matter, small enough that many such responses at a time need little memory.
const chunk = 256 << 10

// chunked buffers a response and sends it in chunks.
type chunked struct {
	w   *Response
	b   *Buffer
	err error
}

func (a *Answer) newChunked() *chunked {
	return &chunked{w: a.Writer, b: GetBuffer()}
}

// flushIfFull sends the buffer if it holds a chunk.
func (ch *chunked) flushIfFull() {
	if len(ch.b.Bytes) < chunk {
		return
	}
	ch.send()
}

func (ch *chunked) send() {
	if ch.err == nil {
		_, ch.err = ch.w.Write(ch.b.Bytes)
	}
	ch.b.Bytes = ch.b.Bytes[:0]
}

// end sends the rest. An error is ignored: the client has disconnected.
func (ch *chunked) end() {
	ch.send()
	ch.b.Free()
}
