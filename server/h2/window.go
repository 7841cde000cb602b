package h2

// window is how much may still be received, and how much has been read of what was.
type window struct {
	left int64 // what the client may send
	read int64 // what has been read since the client was told last
	size int64
}

func newWindow(size int64) window { return window{left: size, size: size} }

// take notes that n bytes have come, if they were allowed to.
func (w *window) take(n int) bool {
	if int64(n) > w.left {
		return false
	}
	w.left -= int64(n)
	return true
}

// give notes that n bytes have been read, and returns by how much the client should hear that its window has grown: not
// for each few bytes.
func (w *window) give(n int) (grown uint32) {
	if w.read += int64(n); w.read < w.size/2 {
		return 0
	}
	grown = uint32(w.read)
	w.left += w.read
	w.read = 0
	return grown
}
