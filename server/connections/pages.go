package connections

import (
	"compress/flate"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
)

// longestPage bounds the pages whose links are led back through the proxy. They are in memory as a whole, and a backend could send one without an
// end, or one that is long only when it is unpacked.
const longestPage = 16 << 20

var errLongPage = errors.New("a page of the backend is too long for its links to be led through the proxy")

// boundPage bounds an answer if it is a page. A page that is compressed is unpacked on the way.
func boundPage(answer *http.Response) error {
	if kind, _, _ := strings.Cut(answer.Header.Get("Content-Type"), ";"); strings.TrimSpace(kind) != "text/html" {
		return nil
	}
	unpacked := io.Reader(answer.Body)
	switch answer.Header.Get("Content-Encoding") {
	case "gzip":
		r, err := gzip.NewReader(answer.Body)
		switch {
		case err == nil:
			unpacked = r
		case errors.Is(err, io.EOF): // there is no body
			unpacked = http.NoBody
		default:
			return err
		}
	case "deflate":
		unpacked = flate.NewReader(answer.Body)
	case "":
	default:
		return nil // it is passed on as it is
	}
	if unpacked != io.Reader(answer.Body) {
		answer.Header.Del("Content-Encoding")
		answer.Header.Del("Content-Length")
		answer.ContentLength = -1
	}
	answer.Body = &page{Reader: io.LimitReader(unpacked, longestPage+1), Closer: answer.Body}
	return nil
}

// page is a body that ends with an error when it is too long.
type page struct {
	io.Reader
	io.Closer
	read int
}

// Read implements io.Reader.
func (p *page) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	if p.read += n; p.read > longestPage {
		return 0, errLongPage
	}
	return n, err
}
