package openapi

import (
	"crypto/sha512"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/deflate"
	"github.com/millrace/millrace/internal/server/resource"
)

// The document of version 2 describes all kinds, and with thousands of custom kinds it has tens of megabytes. So its
// sections are compressed each by itself (package deflate), and when a kind changes, only the sections of that kind are
// made again.

// assembled is the document in one form.
type assembled struct {
	builtin []*resource.Face // that are not custom
	pieces  map[sectionKey]*piece
	used    time.Time

	// Of what, and what, was assembled last.
	from []*piece
	text []byte
	hash string
}

// piece is a compressed section.
type piece struct {
	block deflate.Block
	hash  [sha512.Size]byte // of what is compressed
}

// assemble returns the compressed document of version 2, and its hash.
func (d *Documents) assemble(f form, foreign []Foreign) (text []byte, hash string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	faces := d.facesOf(everything)
	of := d.document(faces, plainPaths(faces), foreign)
	builtin := slices.DeleteFunc(slices.Clone(faces), func(f *resource.Face) bool { return f.Of.Custom })
	a := d.whole[f]
	if a == nil || !slices.Equal(a.builtin, builtin) {
		a = &assembled{builtin: builtin, pieces: map[sectionKey]*piece{}}
	}
	a.used = time.Now()
	if err := a.update(of, f); err != nil {
		return nil, "", fmt.Errorf("describe everything: %w", err)
	}
	if !d.closed {
		d.whole[f] = a
		d.sweepLaterLocked()
	}
	return a.text, a.hash, nil
}

// update makes the pieces that are missing, forgets those that are not needed any more, and puts them together.
func (a *assembled) update(of *document, f form) error {
	sections := of.sections(true)
	if len(a.builtin) == 0 { // the first path would follow nothing
		sections = []section{{write: of.write}}
	}
	all := make([]*piece, len(sections))
	next := make(map[sectionKey]*piece, len(sections))
	errs := make([]error, len(sections))
	turns := make(chan struct{}, runtime.GOMAXPROCS(0))
	var making sync.WaitGroup
	for i, s := range sections {
		if old := a.pieces[s.key]; old != nil {
			all[i] = old
			continue
		}
		turns <- struct{}{}
		making.Go(func() {
			defer func() { <-turns }()
			all[i], errs[i] = compress(s, f, i == 0)
		})
	}
	making.Wait()
	for i, s := range sections {
		if errs[i] != nil {
			return errs[i]
		}
		if s.key.part != "" {
			next[s.key] = all[i]
		}
	}
	a.pieces = next
	same := func(x, y *piece) bool { return x.hash == y.hash }
	if a.text == nil || !slices.EqualFunc(a.from, all, same) {
		a.from, a.text = all, join(all)
		a.hash = hashOf(all)
	}
	return nil
}

// compress writes a section.
func compress(s section, f form, first bool) (*piece, error) {
	z, hash := deflate.NewWriter(), sha512.New()
	to := io.MultiWriter(z, hash)
	w := f.resume(to, s.schemas)
	if first {
		w = f.writer(to)
	}
	if err := s.write(w); err != nil {
		return nil, err
	}
	p := &piece{block: z.Block()}
	hash.Sum(p.hash[:0])
	return p, nil
}

func hashOf(all []*piece) string {
	h := sha512.New()
	for _, p := range all {
		h.Write(p.hash[:])
	}
	return fmt.Sprintf("%X", h.Sum(nil))
}

// join makes one gzip member of pieces.
func join(all []*piece) []byte {
	size := 64
	for _, p := range all {
		size += len(p.block)
	}
	var stream deflate.Stream
	out := stream.AppendHead(make([]byte, 0, size))
	for _, p := range all {
		out = stream.AppendBlock(out, p.block)
	}
	return stream.AppendEnd(out)
}
