package answer

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// Response remembers what was sent.
type Response struct {
	http.ResponseWriter
	Code  int
	Bytes int64
	// Started, if set, is told the code when the answer begins.
	Started func(code int)
	// Copy, if set, gets what is sent as well.
	Copy io.Writer
}

func (w *Response) begin(code int) {
	if w.Code != 0 {
		return
	}
	w.Code = code
	if w.Started != nil {
		w.Started(code)
	}
}

func (w *Response) WriteHeader(code int) {
	w.begin(code)
	w.ResponseWriter.WriteHeader(code)
}

func (w *Response) Write(b []byte) (int, error) {
	w.begin(http.StatusOK)
	n, err := w.ResponseWriter.Write(b)
	w.Bytes += int64(n)
	if w.Copy != nil {
		_, _ = w.Copy.Write(b[:n])
	}
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (w *Response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Hijack notes that the connection speaks something else from now on.
func (w *Response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.begin(http.StatusSwitchingProtocols)
	}
	return conn, buffered, err
}

// Flush sends what has been written.
func (w *Response) Flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}
