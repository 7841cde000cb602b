package connections

import (
	"compress/flate"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
)

// longestPage bounds the HTML pages whose links are rewritten. They are held in memory as a whole, and a backend might
// send one without end, or one that is long only when it is decompressed.
const longestPage = 16 << 20

var errLongPage = errors.New("an HTML page of the backend is too long to rewrite its links for the proxy")

// boundPage bounds a response if it is an HTML page. A compressed page is decompressed.
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
		return nil // it is passed on unchanged
	}
	if unpacked != io.Reader(answer.Body) {
		answer.Header.Del("Content-Encoding")
		answer.Header.Del("Content-Length")
		answer.ContentLength = -1
	}
	answer.Body = &boundedPage{Reader: io.LimitReader(unpacked, longestPage+1), Closer: answer.Body}
	return nil
}

// boundedPage is a body that fails when it is too long.
type boundedPage struct {
	io.Reader
	io.Closer
	read int
}

// Read implements io.Reader.
func (p *boundedPage) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	if p.read += n; p.read > longestPage {
		return 0, errLongPage
	}
	return n, err
}
