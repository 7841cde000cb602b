package answer

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// Response is an http.ResponseWriter that records the status code and the number of bytes.
type Response struct {
	http.ResponseWriter
	Code  int
	Bytes int64
	// Started, if set, is called with the status code when the response begins.
	Started func(code int)
	// Copy, if set, also gets the bytes that are sent.
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

// Unwrap gives http.ResponseController access to the connection.
func (w *Response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Hijack records that the connection now uses another protocol.
func (w *Response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.begin(http.StatusSwitchingProtocols)
	}
	return conn, buffered, err
}

func (w *Response) Flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}
