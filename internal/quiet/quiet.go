// Package quiet lets a log say less loudly what is not worth a warning.
package quiet

import (
	"context"
	"log/slog"
)

// Handler is a slog.Handler that lowers some records to the level Debug.
type Handler struct {
	slog.Handler
	// Lower chooses them, of those above that level.
	Lower func(slog.Record) bool
}

// Handle implements slog.Handler.
func (h Handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level > slog.LevelDebug && h.Lower(r) {
		if r.Level = slog.LevelDebug; !h.Enabled(ctx, r.Level) {
			return nil
		}
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return Handler{h.Handler.WithAttrs(attrs), h.Lower}
}

// WithGroup implements slog.Handler.
func (h Handler) WithGroup(name string) slog.Handler {
	return Handler{h.Handler.WithGroup(name), h.Lower}
}
