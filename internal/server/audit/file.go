package audit

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// FileOptions say how events are written to a file. Path "-" is the standard output.
type FileOptions struct {
	Path string
	// MaxAge is how many days old files stay, MaxBackups how many of them, and MaxSize how many MB a file may have. 0
	// is no bound; for MaxSize it is 100.
	MaxAge, MaxBackups, MaxSize int
	// Format is json or legacy; Mode blocking, blocking-strict or batch. Empty are the first ones.
	Format, Mode string
	Batch        BatchOptions
}

func (o FileOptions) open(log *slog.Logger) (*backend, error) {
	b := &backend{name: "log", strict: o.Mode == BlockingStrict, legacy: o.Format == "legacy"}
	switch o.Format {
	case "", "json", "legacy":
	default:
		return nil, fmt.Errorf("the format %q of the audit log is neither json nor legacy", o.Format)
	}
	switch o.Mode {
	case "", Blocking, BlockingStrict:
	case Batch:
		o.Batch.BufferSize = cmp.Or(o.Batch.BufferSize, 10_000)
		o.Batch.MaxSize = max(o.Batch.MaxSize, o.Batch.BufferSize) // nobody sees in a file which events were written together
		o.Batch.MaxWait = cmp.Or(o.Batch.MaxWait, heldFor)
		b.batch = newBatch(o.Batch)
		b.batch.enoughText = 256 << 10
	default:
		return nil, fmt.Errorf("the mode %q of the audit log is none of batch, blocking and blocking-strict", o.Mode)
	}
	if o.Path == "-" {
		b.sink = &file{out: os.Stdout, log: log}
		return b, nil
	}
	f := &file{o: o, log: log, max: int64(cmp.Or(o.MaxSize, 100)) << 20}
	b.sink = f
	return b, f.reopen()
}

// file is a sink that rotates.
type file struct {
	o   FileOptions
	log *slog.Logger
	max int64

	mu   sync.Mutex // guards what follows
	out  io.Writer
	file *os.File // nil for the standard output
	size int64
}

func (f *file) reopen() error {
	if err := os.MkdirAll(filepath.Dir(f.o.Path), 0o700); err != nil {
		return fmt.Errorf("open the audit log: %w", err)
	}
	opened, err := os.OpenFile(f.o.Path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the audit log: %w", err)
	}
	info, err := opened.Stat()
	if err != nil {
		return fmt.Errorf("open the audit log: %w", err)
	}
	f.file, f.out, f.size = opened, opened, info.Size()
	return nil
}

// write writes events to the file, or to the next one.
func (f *file) write(_ context.Context, all events) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	lines := all.text
	if f.max > 0 && f.size > 0 && f.size+int64(len(lines)) > f.max {
		if err := f.rotate(time.Now()); err != nil {
			f.log.Error("the audit log cannot be rotated", "error", err)
		}
	}
	if f.out == nil {
		return os.ErrClosed
	}
	n, err := f.out.Write(lines)
	f.size += int64(n)
	return err
}

// rotate gives the file a name with the time in it, and begins another.
func (f *file) rotate(now time.Time) error {
	if err := f.file.Close(); err != nil {
		return err
	}
	f.out = nil
	stem, end := f.parts()
	if err := os.Rename(f.o.Path, stem+now.UTC().Format(stamp)+end); err != nil {
		return err
	}
	if err := f.reopen(); err != nil {
		return err
	}
	return f.clean(now)
}

const stamp = "2006-01-02T15-04-05.000"

// parts are what old files' names begin and end with.
func (f *file) parts() (stem, end string) {
	end = filepath.Ext(f.o.Path)
	return strings.TrimSuffix(f.o.Path, end) + "-", end
}

// clean removes old files that are too many or too old.
func (f *file) clean(now time.Time) error {
	stem, end := f.parts()
	entries, err := os.ReadDir(filepath.Dir(f.o.Path))
	if err != nil {
		return err
	}
	var old []string // newest first
	for _, e := range slices.Backward(entries) {
		path := filepath.Join(filepath.Dir(f.o.Path), e.Name())
		middle, ok := strings.CutPrefix(path, stem)
		middle, ends := strings.CutSuffix(middle, end)
		at, err := time.Parse(stamp, middle)
		if !ok || !ends || err != nil {
			continue
		}
		tooOld := f.o.MaxAge > 0 && now.Sub(at) > time.Duration(f.o.MaxAge)*24*time.Hour
		if old = append(old, path); tooOld || f.o.MaxBackups > 0 && len(old) > f.o.MaxBackups {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *file) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return nil
	}
	f.out = nil
	return f.file.Close()
}

// line is the event as a line of the legacy format.
func (e *event) line() []byte {
	or := func(s string) string { return cmp.Or(s, "<none>") }
	asUser, asGroups := "<self>", "<lookup>"
	if u := e.impersonated; u != nil {
		if asUser = u.Name; len(u.Groups) > 0 {
			asGroups = quoted(u.Groups)
		}
	}
	namespace := "<none>"
	if e.at.IsResource {
		namespace = or(e.at.Namespace)
	}
	response := "<deferred>"
	switch {
	case e.failure != nil:
		response = fmt.Sprint(e.failure.Code)
	case e.code != 0:
		response = fmt.Sprint(e.code)
	}
	source := ""
	if len(e.sources) > 0 {
		source = e.sources[0]
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s AUDIT: id=%q stage=%q ip=%q method=%q user=%q groups=%q as=%q asgroups=%q user-agent=%q namespace=%q uri=%q response=\"%s\"",
		e.happened.UTC().Format(time.RFC3339Nano), e.id, stageNames[e.stage], source, e.at.Verb, or(e.at.User.Name), quoted(e.at.User.Groups), asUser, asGroups,
		e.agent, namespace, e.uri, response)
	b.WriteByte('\n')
	return b.Bytes()
}

func quoted(all []string) string {
	if len(all) == 0 {
		return "<none>"
	}
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = fmt.Sprintf("%q", s)
	}
	return strings.Join(out, ",")
}
