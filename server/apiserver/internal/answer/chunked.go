package answer

// chunk is how much of a long answer is gathered before it is handed to the connection: enough that the connection's own
// work for each write does not count, little enough that many such answers at a time do not either.
const chunk = 256 << 10

// chunked gathers an answer and sends it in pieces.
type chunked struct {
	w   *Response
	b   *Buffer
	err error
}

func (a *Answer) newChunked() *chunked {
	return &chunked{w: a.Writer, b: GetBuffer()}
}

// room sends what has been gathered when it is enough.
func (ch *chunked) room() {
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

// end sends the rest. What could not be sent is nobody's concern: the caller has gone.
func (ch *chunked) end() {
	ch.send()
	ch.b.Free()
}
