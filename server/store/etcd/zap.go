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

// newZap makes the logger that etcd wants. What etcd would end the process for goes to fail, and ends the goroutine
// instead: a store that is lost is no reason to take everything else along.
func newZap(b *bridge, fail func(error), more ...zap.Option) *zap.Logger {
	return zap.New(b, append(more,
		zap.WithFatalHook(ending{fail}),
		zap.WithPanicHook(ending{fail}))...)
}

// ending reports why etcd gives up.
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
	// quiet drops all while it is true; nil means never.
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
	if b.quiet != nil && b.quiet.Load() || beside(e) || !b.log.Enabled(ctx, level) {
		return nil
	}
	b.log.Log(ctx, level, e.Message, append(attrs(fields), slog.String("component", "etcd"))...)
	return nil
}

// A member tells its name through its own log when it starts. While it has yet to apply what it wrote before it was killed, etcd refuses that,
// and tries again at once, for as long as it takes, with a warning each time: a thousand of them, beside the work that it waits for. It
// is slowed down where it can be, and nobody needs to know.
const (
	publishing   = "failed to publish local member to cluster through raft"
	publishPause = 5 * time.Millisecond
)

// beside says whether a message is beside the point here: raft's warnings are about elections among several, etcd wants
// the folder to be closed to others though its files are, and asks a new folder for the version of its layout before the
// first entry has given it one, which it does again later.
func beside(e zapcore.Entry) bool {
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
