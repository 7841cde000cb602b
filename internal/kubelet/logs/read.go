package logs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Options select lines and their format.
type Options struct {
	// Follow waits for new lines until Ended returns true.
	Follow bool
	// Tail is how many of the last lines are read. Nil means all.
	Tail *int64
	// Since skips older lines.
	Since time.Time
	// Timestamps writes its time before each line.
	Timestamps bool
	// Limit is the maximum number of bytes. Nil means no limit.
	Limit *int64
	// Stream is "stdout" or "stderr". Empty means both.
	Stream string
	// Ended reports whether the container has ended. Nil means that it has.
	Ended func() bool
}

// look is how often a reader that follows checks for more. Checking a file that did not grow costs a microsecond.
const look = 100 * time.Millisecond

var errEnough = errors.New("byte limit reached")

// Read writes a log to w.
func Read(ctx context.Context, path string, o Options, w io.Writer) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("failed to open log file %q: %w", path, err)
	}
	r := &reader{path: path, file: f, options: o, out: bufio.NewWriter(w), raw: w}
	defer func() { r.file.Close() }()
	if o.Tail != nil {
		start, err := tail(f, *o.Tail)
		if err != nil {
			return err
		}
		if _, err := f.Seek(start, io.SeekStart); err != nil {
			return err
		}
	}
	err = r.run(ctx)
	if errors.Is(err, errEnough) {
		err = nil
	}
	return errors.Join(err, r.out.Flush())
}

type reader struct {
	path    string
	file    *os.File
	options Options
	out     *bufio.Writer
	raw     io.Writer
	written int64
	// begun is set between the parts of one line.
	begun bool
	// moved is set once the file was found to be rotated.
	moved bool
}

func (r *reader) run(ctx context.Context) error {
	in := bufio.NewReader(r.file)
	var rest []byte
	for {
		line, err := in.ReadBytes('\n')
		if err == nil {
			if len(rest) > 0 {
				line, rest = append(rest, line...), nil
			}
			if err := r.line(line); err != nil {
				return err
			}
			continue
		}
		if !errors.Is(err, io.EOF) {
			return err
		}
		rest = append(rest, line...)
		if !r.options.Follow {
			return r.last(rest)
		}
		more, err := r.wait(ctx)
		if err != nil || !more {
			return errors.Join(err, r.last(rest))
		}
		in.Reset(r.file)
	}
}

// last writes the rest of a file that has no line end.
func (r *reader) last(rest []byte) error {
	if len(rest) == 0 {
		return nil
	}
	return r.line(rest)
}

// wait waits for more, in this file or its successor. It returns false when nothing more will come.
func (r *reader) wait(ctx context.Context) (bool, error) {
	if err := r.flush(); err != nil {
		return false, err
	}
	for {
		ended := r.options.Ended == nil || r.options.Ended()
		if grown, err := r.grown(); grown || err != nil {
			return grown, err
		}
		if ended {
			return false, nil
		}
		select {
		case <-ctx.Done():
			return false, nil
		case <-time.After(look):
		}
	}
}

// flush flushes all buffers between the log and the client.
func (r *reader) flush() error {
	if err := r.out.Flush(); err != nil {
		return err
	}
	if f, ok := r.raw.(interface{ Flush() }); ok {
		f.Flush()
	}
	return nil
}

// grown reports whether there is more to read: in this file or, once it is complete, in the next one.
func (r *reader) grown() (bool, error) {
	at, err := r.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return false, err
	}
	own, err := r.file.Stat()
	if err != nil {
		return false, err
	}
	if own.Size() > at {
		return true, nil
	}
	now, err := os.Stat(r.path)
	if err != nil || os.SameFile(own, now) {
		return false, nil // missing during a rotation, or for good, in which case the container will end
	}
	if !r.moved { // the writer may still have the old file open for a moment
		r.moved = true
		return false, nil
	}
	next, err := os.Open(r.following(own))
	if err != nil {
		return false, nil
	}
	r.file.Close()
	r.file, r.moved = next, false
	return true, nil
}

// following returns the file after one that was rotated. There may have been several rotations since.
func (r *reader) following(own os.FileInfo) string {
	moved, _ := filepath.Glob(r.path + ".*")
	slices.Sort(moved)
	at := slices.IndexFunc(moved, func(path string) bool {
		info, err := os.Stat(path)
		return err == nil && os.SameFile(info, own)
	})
	if at+1 < len(moved) { // the oldest one left, if the file itself was removed meanwhile
		return moved[at+1]
	}
	return r.path
}

// line writes one line of the file if it is selected.
func (r *reader) line(line []byte) error {
	at, stream, partial, text, ok := parse(line)
	if !ok {
		return nil
	}
	if r.options.Stream != "" && stream != r.options.Stream || !r.options.Since.IsZero() && before(at, r.options.Since) {
		return nil
	}
	if r.options.Timestamps && !r.begun {
		if err := r.write(append([]byte(at), ' ')); err != nil {
			return err
		}
	}
	r.begun = partial
	if !partial && !bytes.HasSuffix(text, []byte("\n")) {
		text = append(text[:len(text):len(text)], '\n')
	}
	if partial {
		text = bytes.TrimSuffix(text, []byte("\n"))
	}
	return r.write(text)
}

func (r *reader) write(text []byte) error {
	if r.options.Limit != nil {
		left := *r.options.Limit - r.written
		if int64(len(text)) >= left {
			_, err := r.out.Write(text[:left])
			return errors.Join(errEnough, err)
		}
	}
	r.written += int64(len(text))
	_, err := r.out.Write(text)
	return err
}

// parse splits a line.
func parse(line []byte) (at, stream string, partial bool, text []byte, ok bool) {
	parts := bytes.SplitN(line, []byte{' '}, 4)
	if len(parts) < 4 {
		return "", "", false, nil, false
	}
	tag, _, _ := bytes.Cut(parts[2], []byte{':'})
	return string(parts[0]), string(parts[1]), string(tag) == "P", parts[3], true
}

func before(text string, since time.Time) bool {
	at, err := time.Parse(time.RFC3339Nano, text)
	return err == nil && at.Before(since)
}
