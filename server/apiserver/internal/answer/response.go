package answer

import (
	"bufio"
	"net"
	"net/http"
)

// Response remembers what was sent.
type Response struct {
	http.ResponseWriter
	Code  int
	Bytes int64
}

func (w *Response) WriteHeader(code int) {
	if w.Code == 0 {
		w.Code = code
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *Response) Write(b []byte) (int, error) {
	if w.Code == 0 {
		w.Code = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(b)
	w.Bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (w *Response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Hijack notes that the connection speaks something else from now on.
func (w *Response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.Code = http.StatusSwitchingProtocols
	}
	return conn, buffered, err
}

// Flush sends what has been written.
func (w *Response) Flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}
