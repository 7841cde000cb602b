package etcdfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// A file of bbolt has pages of one size. Pages 0 and 1 are two versions of the head, of which the newer one counts. The
// others are branches and leaves of trees, by ascending key. What is longer than a page continues in those after it.
const (
	minPageSize = 512
	maxPageSize = 1 << 16

	pageHead     = 16 // id (8 bytes), flags (2), number of elements (2), how many pages follow that belong to it (4)
	elementHead  = 16
	headSize     = 64 // of the fields of a head, with their checksum in the last 8 bytes
	headMagic    = 0xED0CDAED
	headVersion  = 2
	bucketHead   = 16 // root (8 bytes), a sequence (8); if the root is 0, a leaf follows in the same value
	flagBranch   = 1
	flagLeaf     = 2
	flagBucket   = 1 // of an element of a leaf
	maxTreeDepth = 64
)

var errDatabase = errors.New("it is damaged, or no database of etcd")

// pages are the pages of a database.
type pages struct {
	file     io.ReaderAt
	meter    *meter
	pageSize int64
	count    uint64 // of the pages in use
	root     uint64
}

// openPages reads the head of a database.
func openPages(f io.ReaderAt, size int64, m *meter) (*pages, error) {
	var best *pages
	var newest uint64
	consider := func(at int64) {
		if p, version := readHead(f, at, size); p != nil && (best == nil || version > newest) {
			best, newest = p, version
		}
	}
	consider(0)
	if best != nil {
		consider(best.pageSize)
	} else {
		for at := int64(minPageSize); at <= maxPageSize; at *= 2 {
			consider(at)
		}
	}
	if best == nil {
		return nil, fmt.Errorf("%w: neither of its two heads is whole", errDatabase)
	}
	if have := uint64(size / best.pageSize); best.count > have {
		return nil, fmt.Errorf("it is cut off: it has %d pages of %d", have, best.count)
	}
	best.meter = m
	return best, nil
}

// readHead returns nil if there is no valid head at an offset.
func readHead(f io.ReaderAt, at, size int64) (p *pages, version uint64) {
	b := make([]byte, pageHead+headSize)
	if at+int64(len(b)) > size {
		return nil, 0
	}
	if _, err := f.ReadAt(b, at); err != nil {
		return nil, 0
	}
	b = b[pageHead:]
	sum := fnv.New64a()
	sum.Write(b[:headSize-8])
	pageSize := int64(binary.LittleEndian.Uint32(b[8:]))
	if binary.LittleEndian.Uint32(b) != headMagic || binary.LittleEndian.Uint32(b[4:]) != headVersion || sum.Sum64() != binary.LittleEndian.Uint64(b[headSize-8:]) ||
		pageSize < minPageSize || pageSize > maxPageSize || pageSize&(pageSize-1) != 0 {
		return nil, 0
	}
	return &pages{file: f, pageSize: pageSize, root: binary.LittleEndian.Uint64(b[16:]), count: binary.LittleEndian.Uint64(b[40:])},
		binary.LittleEndian.Uint64(b[48:])
}

// page is a page with those that belong to it.
type page struct {
	bytes  []byte
	at     int64  // where it begins in the file
	id     uint64 // zero for the leaf in a bucket's own value
	bucket string // that bucket's name
}

// read reads a page.
func (p *pages) read(id uint64) (page, error) {
	g := page{at: int64(id) * p.pageSize, id: id}
	if id < 2 || id >= p.count {
		return g, g.broken("there is none of this number")
	}
	g.bytes = make([]byte, p.pageSize)
	if _, err := p.file.ReadAt(g.bytes, g.at); err != nil {
		return g, fmt.Errorf("page %d: %w", id, err)
	}
	if found := binary.LittleEndian.Uint64(g.bytes); found != id {
		return g, g.broken("its number is %d", found)
	}
	if more := uint64(binary.LittleEndian.Uint32(g.bytes[12:])); more > 0 {
		if more >= p.count-id {
			return g, g.broken("%d pages belong to it", more)
		}
		whole := make([]byte, int64(more+1)*p.pageSize)
		copy(whole, g.bytes)
		if _, err := p.file.ReadAt(whole[p.pageSize:], g.at+p.pageSize); err != nil {
			return g, fmt.Errorf("page %d: %w", id, err)
		}
		g.bytes = whole
	}
	return g, p.meter.add(int64(len(g.bytes)))
}

func (g page) broken(format string, a ...any) error {
	where := fmt.Sprint("page ", g.id)
	if g.bucket != "" {
		where = fmt.Sprintf("the leaf of the bucket %q", g.bucket)
	}
	return fmt.Errorf("%w: %s: %s", errDatabase, where, fmt.Sprintf(format, a...))
}

func (g page) flags() uint16 { return binary.LittleEndian.Uint16(g.bytes[8:]) }
func (g page) elements() int { return int(binary.LittleEndian.Uint16(g.bytes[10:])) }

// element returns the head of an element, and checks that it is in the page.
func (g page) element(i int) (head []byte, at int, err error) {
	at = pageHead + i*elementHead
	if at+elementHead > len(g.bytes) {
		return nil, 0, g.broken("it has no room for %d elements", g.elements())
	}
	return g.bytes[at:][:elementHead], at, nil
}

// span returns bytes of an element.
func (g page) span(at int, from, size uint64) ([]byte, int64, error) {
	begin := uint64(at) + from
	if begin+size > uint64(len(g.bytes)) {
		return nil, 0, g.broken("an element ends after it")
	}
	return g.bytes[begin : begin+size], g.at + int64(begin), nil
}

// tree is a bucket of the database: keys with values.
type tree struct {
	pages *pages
	root  uint64
	leaf  page // instead of a root, if it is small
}

// element is a key with its value, and the place of the value in the file. Key and value are valid during the visit.
type element struct {
	key, value []byte
	at         int64
	bucket     bool
}

// walk visits all elements by ascending key.
func (t tree) walk(visit func(element) error) error {
	w := walk{pages: t.pages, visit: visit}
	if t.leaf.bytes != nil {
		return w.leaf(t.leaf)
	}
	return w.page(t.root, 0)
}

// walk is a walk through a tree.
type walk struct {
	pages *pages
	visit func(element) error
	read  uint64 // how many pages: more than there are would be a circle
	last  []byte // the key before
	begun bool
}

func (w *walk) page(id uint64, depth int) error {
	g, err := w.pages.read(id)
	if err != nil {
		return err
	}
	if w.read += uint64(len(g.bytes)) / uint64(w.pages.pageSize); w.read > w.pages.count || depth > maxTreeDepth {
		return g.broken("the tree has a circle")
	}
	switch g.flags() {
	case flagLeaf:
		return w.leaf(g)
	case flagBranch:
		return w.branch(g, depth)
	}
	return g.broken("it is no part of a tree: its flags are %#x", g.flags())
}

func (w *walk) branch(g page, depth int) error {
	for i := range g.elements() {
		head, _, err := g.element(i)
		if err != nil {
			return err
		}
		if err := w.page(binary.LittleEndian.Uint64(head[8:]), depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) leaf(g page) error {
	if g.flags() != flagLeaf {
		return g.broken("it is no leaf: its flags are %#x", g.flags())
	}
	for i := range g.elements() {
		head, at, err := g.element(i)
		if err != nil {
			return err
		}
		from, keySize, valueSize := uint64(binary.LittleEndian.Uint32(head[4:])), uint64(binary.LittleEndian.Uint32(head[8:])), uint64(binary.LittleEndian.Uint32(head[12:]))
		e := element{bucket: binary.LittleEndian.Uint32(head)&flagBucket != 0}
		if e.key, _, err = g.span(at, from, keySize); err != nil {
			return err
		}
		if e.value, e.at, err = g.span(at, from+keySize, valueSize); err != nil {
			return err
		}
		if w.begun && bytes.Compare(w.last, e.key) >= 0 {
			return g.broken("its keys are not in order")
		}
		w.begun, w.last = true, append(w.last[:0], e.key...)
		if err := w.visit(e); err != nil {
			return err
		}
	}
	return nil
}

// buckets returns the buckets of the database by name.
func (p *pages) buckets() (map[string]tree, error) {
	all := map[string]tree{}
	err := tree{pages: p, root: p.root}.walk(func(e element) error {
		if !e.bucket {
			return nil
		}
		if len(e.value) < bucketHead {
			return fmt.Errorf("%w: the bucket %q has no head", errDatabase, e.key)
		}
		t := tree{pages: p, root: binary.LittleEndian.Uint64(e.value)}
		if t.root == 0 {
			t.leaf = page{bytes: bytes.Clone(e.value[bucketHead:]), at: e.at + bucketHead, bucket: string(e.key)}
			if len(t.leaf.bytes) < pageHead {
				return t.leaf.broken("it has no head")
			}
		}
		all[string(e.key)] = t
		return nil
	})
	return all, err
}
