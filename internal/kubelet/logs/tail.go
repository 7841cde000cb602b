package logs

import (
	"bytes"
	"errors"
	"io"
	"os"
)

const block = 32 << 10

// tail returns the offset of the last n lines of a file.
func tail(f *os.File, n int64) (int64, error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil || n <= 0 {
		return size, err
	}
	buffer := make([]byte, block)
	found := int64(0)
	for end := size; end > 0; {
		start := max(end-block, 0)
		part := buffer[:end-start]
		if _, err := f.ReadAt(part, start); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if end == size && part[len(part)-1] == '\n' {
			part = part[:len(part)-1] // the last line's end does not begin another line
		}
		for i := bytes.LastIndexByte(part, '\n'); i >= 0; i = bytes.LastIndexByte(part[:i], '\n') {
			if found++; found == n {
				return start + int64(i) + 1, nil
			}
		}
		end = start
	}
	return 0, nil
}
