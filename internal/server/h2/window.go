package h2

// window is a receive window: how much the client may still send, and how much was read.
type window struct {
	left int64 // what the client may send
	read int64 // what has been read since the last WINDOW_UPDATE
	size int64
}

func newWindow(size int64) window { return window{left: size, size: size} }

// take records that n bytes have arrived. It returns false if they exceed the window.
func (w *window) take(n int) bool {
	if int64(n) > w.left {
		return false
	}
	w.left -= int64(n)
	return true
}

// give records that n bytes have been read. It returns by how much to announce a larger window; zero as long as that is
// only a little.
func (w *window) give(n int) (grown uint32) {
	if w.read += int64(n); w.read < w.size/2 {
		return 0
	}
	grown = uint32(w.read)
	w.left += w.read
	w.read = 0
	return grown
}
