package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
)

//go:embed web
var web embed.FS

// file is a file of the page.
type file struct {
	text, packed []byte
	kind, tag    string
}

// kinds are the types of the files: those of the machine may say something else.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

// read reads the files, by their paths. They are part of the program, so they can be read.
func read() map[string]file {
	all := map[string]file{}
	err := fs.WalkDir(web, "web", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := web.ReadFile(name)
		if err != nil {
			return err
		}
		f := file{text: text, packed: pack(text), kind: kinds[path.Ext(name)], tag: fmt.Sprintf(`"%x"`, sha256.Sum256(text))}
		if f.kind == "" {
			f.kind = mime.TypeByExtension(path.Ext(name))
		}
		all[strings.TrimPrefix(name, "web/")] = f
		return nil
	})
	if err != nil {
		panic(fmt.Sprintf("page: %v", err))
	}
	all[""] = all["index.html"]
	return all
}

func pack(text []byte) []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level exists
	_, _ = z.Write(text)                                  // into memory
	_ = z.Close()
	return b.Bytes()
}

// send sends a file. Browsers keep it, and ask each time whether it has changed.
func (p *Page) send(w http.ResponseWriter, r *http.Request) {
	f, ok := p.files[strings.TrimPrefix(r.URL.Path, Prefix)]
	switch {
	case !ok:
		refuse(w, http.StatusNotFound, "there is no such file of the page")
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		refuse(w, http.StatusMethodNotAllowed, "files are only read")
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", f.tag)
	h.Set("Vary", "Accept-Encoding")
	if r.Header.Get("If-None-Match") == f.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	text := f.text
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		text = f.packed
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Length", strconv.Itoa(len(text)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(text) // the client has gone
	}
}
