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

func (r *Response) begin(code int) {
	if r.Code != 0 {
		return
	}
	r.Code = code
	if r.Started != nil {
		r.Started(code)
	}
}

func (r *Response) WriteHeader(code int) {
	r.begin(code)
	r.ResponseWriter.WriteHeader(code)
}

func (r *Response) Write(b []byte) (int, error) {
	r.begin(http.StatusOK)
	n, err := r.ResponseWriter.Write(b)
	r.Bytes += int64(n)
	if r.Copy != nil {
		_, _ = r.Copy.Write(b[:n])
	}
	return n, err
}

// Unwrap gives http.ResponseController access to the connection.
func (r *Response) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Hijack records that the connection now uses another protocol.
func (r *Response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(r.ResponseWriter).Hijack()
	if err == nil {
		r.begin(http.StatusSwitchingProtocols)
	}
	return conn, buffered, err
}

func (r *Response) Flush() {
	if f, ok := r.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}
