package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// newZap makes the logger that etcd needs. A fatal error is passed to fail and ends only the goroutine, not the
// process: the rest of the program can go on without its store.
func newZap(b *bridge, fail func(error), more ...zap.Option) *zap.Logger {
	return zap.New(b, append(more,
		zap.WithFatalHook(ending{fail}),
		zap.WithPanicHook(ending{fail}))...)
}

// ending reports why etcd fails.
type ending struct{ fail func(error) }

func (e ending) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	err := errors.New(entry.Message)
	for _, f := range fields {
		if cause, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
			err = fmt.Errorf("%s: %w", entry.Message, cause)
		}
	}
	e.fail(err)
	runtime.Goexit()
}

// bridge writes zap's warnings and errors to slog.
type bridge struct {
	log *slog.Logger
	// quiet drops everything while it is true; nil means never.
	quiet *atomic.Bool
}

func (b *bridge) Enabled(l zapcore.Level) bool { return l >= zapcore.WarnLevel }

func (b *bridge) With(fields []zapcore.Field) zapcore.Core {
	return &bridge{log: b.log.With(attrs(fields)...), quiet: b.quiet}
}

func (b *bridge) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if b.Enabled(e.Level) {
		return ce.AddCore(e, b)
	}
	return ce
}

func (b *bridge) Write(e zapcore.Entry, fields []zapcore.Field) error {
	level := slog.LevelWarn
	if e.Level >= zapcore.ErrorLevel {
		level = slog.LevelError
	}
	if e.Message == publishing {
		time.Sleep(publishPause)
		return nil
	}
	ctx := context.Background()
	if b.quiet != nil && b.quiet.Load() || isIrrelevant(e) || !b.log.Enabled(ctx, level) {
		return nil
	}
	b.log.Log(ctx, level, e.Message, append(attrs(fields), slog.String("component", "etcd"))...)
	return nil
}

// When a member starts, it publishes its name through its own log. After a kill -9 it has to apply its log first, and
// until then etcd refuses the publication and tries again at once, with a warning each time: a thousand of them, which
// slow down the work that it waits for. So the logger delays this message, and drops it.
const (
	publishing   = "failed to publish local member to cluster through raft"
	publishPause = 5 * time.Millisecond
)

// isIrrelevant says whether a message does not apply here. Raft warns about elections among several members. Etcd wants
// a directory that others cannot read, although its files are unreadable for them anyway. Etcd also asks a new
// directory for its storage version before the first entry has set it, and does so again later.
func isIrrelevant(e zapcore.Entry) bool {
	switch e.Message {
	case "Failed to detect schema version", "failed to update storage version":
		return true
	case "check file permission":
		return e.Level == zapcore.WarnLevel
	}
	return e.Level == zapcore.WarnLevel && e.LoggerName == "raft"
}

func (b *bridge) Sync() error { return nil }

func attrs(fields []zapcore.Field) []any {
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(enc)
	}
	out := make([]any, 0, len(enc.Fields)+1)
	for key, value := range enc.Fields {
		out = append(out, slog.Any(key, value))
	}
	return out
}
