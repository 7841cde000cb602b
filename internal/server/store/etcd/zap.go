package etcd

import (
	"context"
	"log/slog"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// newZap makes the logger that etcd's client needs. Its errors are written to log.
func newZap(log *slog.Logger) *zap.Logger { return zap.New(&bridge{log: log}) }

// bridge writes zap's errors to slog.
type bridge struct{ log *slog.Logger }

func (b *bridge) Enabled(l zapcore.Level) bool { return l >= zapcore.ErrorLevel }

func (b *bridge) With(fields []zapcore.Field) zapcore.Core {
	return &bridge{log: b.log.With(attrs(fields)...)}
}

func (b *bridge) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if b.Enabled(e.Level) {
		return ce.AddCore(e, b)
	}
	return ce
}

func (b *bridge) Write(e zapcore.Entry, fields []zapcore.Field) error {
	b.log.Log(context.Background(), slog.LevelError, e.Message, append(attrs(fields), slog.String("component", "etcd"))...)
	return nil
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
