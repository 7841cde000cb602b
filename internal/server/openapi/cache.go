package openapi

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha512"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/millrace/millrace/internal/server/resource"
)

// Options say what is described.
type Options struct {
	Catalogue *resource.Catalogue
	// Version is the server's, as the documents state it.
	Version string
	// Schema gives the schema of a custom resource; nil if it has none. Answers for one face never change.
	Schema func(*resource.Face) *Schema
	// Others are documents of version 3 that other servers have: where they are, by the path of their group version.
	// Other answers for one of them; nil if it is none.
	Others func() map[string]string
	Other  func(id string) http.Handler
	// Foreign is what other servers say of themselves in version 2.
	Foreign func(context.Context) []Foreign
	// Settle, unless it is nil, has the catalogue follow what was changed before.
	Settle func(context.Context) error
	// Keep is how long a document stays after it was last asked for, by default three minutes.
	Keep time.Duration
}

// Documents are the descriptions of what a catalogue has.
type Documents struct {
	o Options

	mu      sync.Mutex          // guards what follows; held while a document is made, so that one is made at a time
	entries map[string]*entry   // of version 3
	whole   map[form]*assembled // version 2
	sweeper *time.Timer
	closed  bool
}

// entry is what is known of one document of version 3. Without text it is a hash.
type entry struct {
	faces []*resource.Face
	plain []plainPath
	hash  string
	text  map[form][]byte // compressed
	used  time.Time
}

// New makes documents; nothing is written before it is asked for.
func New(o Options) *Documents {
	o.Keep = cmp.Or(o.Keep, 3*time.Minute)
	return &Documents{o: o, entries: map[string]*entry{}, whole: map[form]*assembled{}}
}

// Close gives back what is kept. Documents that are asked for later are made and not kept.
func (d *Documents) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if d.sweeper != nil {
		d.sweeper.Stop()
	}
	clear(d.entries)
	clear(d.whole)
}

// everything is the name of the document of version 2.
const everything = ""

// facesOf lists what belongs into a document: the faces of a group version, in the order of their resources, or all.
func (d *Documents) facesOf(document string) []*resource.Face {
	var out []*resource.Face
	for _, k := range d.o.Catalogue.Kinds() {
		for _, f := range k.Served() {
			if document == everything || documentOf(f) == document {
				out = append(out, f)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b *resource.Face) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Resource, b.Resource))
	})
	return out
}

// documentOf names the document of a face: "api/v1", "apis/apps/v1".
func documentOf(f *resource.Face) string { return groupPath(f.GroupVersion())[1:] }

// list names the documents of version 3 with their hashes.
func (d *Documents) list() (map[string]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	faces, out, names := d.facesOf(everything), map[string]string{}, []string{}
	for _, f := range faces {
		names = append(names, documentOf(f))
	}
	for _, p := range plainPaths(faces) {
		names = append(names, p.document())
	}
	for _, id := range names {
		if _, done := out[id]; done {
			continue
		}
		e, err := d.entryLocked(id)
		if err != nil {
			return nil, err
		}
		if e != nil { // a definition may have been deleted meanwhile
			out[id] = e.hash
		}
	}
	for id := range d.entries {
		if _, still := out[id]; !still {
			delete(d.entries, id)
		}
	}
	return out, nil
}

// text is the compressed form of a document of version 3, and its hash. ok is false if there is no such document.
func (d *Documents) text(id string, f form) (text []byte, hash string, ok bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, err := d.entryLocked(id)
	if err != nil || e == nil {
		return nil, "", false, err
	}
	e.used = time.Now()
	if text := e.text[f]; text != nil {
		return text, e.hash, true, nil
	}
	var buffer bytes.Buffer
	if err := d.compressLocked(d.document(e.faces, e.plain, nil), f, &buffer); err != nil {
		return nil, "", false, err
	}
	text = bytes.Clone(buffer.Bytes())
	if !d.closed {
		e.text[f] = text
		d.sweepLaterLocked()
	}
	return text, e.hash, true, nil
}

// entryLocked finds or makes what is known of a document; nil if there is none of that name.
func (d *Documents) entryLocked(id string) (*entry, error) {
	faces := d.facesOf(id)
	var plain []plainPath
	if len(faces) == 0 {
		plain = d.plainOf(id)
	}
	if len(faces) == 0 && len(plain) == 0 {
		delete(d.entries, id)
		return nil, nil
	}
	if e := d.entries[id]; e != nil && slices.Equal(e.faces, faces) {
		return e, nil
	}
	e := &entry{faces: faces, plain: plain, text: map[form][]byte{}}
	hash := sha512.New()
	if err := d.document(faces, plain, nil).write(form{}.writer(hash)); err != nil {
		return nil, fmt.Errorf("describe %s: %w", id, err)
	}
	e.hash = fmt.Sprintf("%X", hash.Sum(nil))
	if !d.closed {
		d.entries[id] = e
	}
	return e, nil
}

// plainOf returns the path that a document consists of, if it is not one of kinds.
func (d *Documents) plainOf(id string) []plainPath {
	all := plainPaths(d.facesOf(everything))
	return slices.DeleteFunc(all, func(p plainPath) bool { return p.document() != id })
}

func (d *Documents) document(faces []*resource.Face, plain []plainPath, foreign []Foreign) *document {
	return &document{faces: faces, plain: plain, version: d.o.Version, own: d.o.Schema, foreign: foreign}
}

func (d *Documents) compressLocked(of *document, f form, to io.Writer) error {
	z := gzip.NewWriter(to)
	if err := of.write(f.writer(z)); err != nil {
		return err
	}
	return z.Close()
}

// sweepLaterLocked sees to it that texts which nobody asks for any more are dropped.
func (d *Documents) sweepLaterLocked() {
	if d.sweeper == nil {
		d.sweeper = time.AfterFunc(d.o.Keep, d.sweep)
	}
}

func (d *Documents) sweep() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sweeper = nil
	if d.closed {
		return
	}
	kept := false
	for _, e := range d.entries {
		switch {
		case len(e.text) == 0:
		case time.Since(e.used) >= d.o.Keep:
			clear(e.text)
		default:
			kept = true
		}
	}
	for f, a := range d.whole {
		if time.Since(a.used) >= d.o.Keep {
			delete(d.whole, f)
		} else {
			kept = true
		}
	}
	if kept {
		d.sweepLaterLocked()
	}
}
