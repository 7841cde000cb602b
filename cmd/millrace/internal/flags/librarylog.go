package flags

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
)

// streaming is the path of the library that serves exec, attach and forwarded ports.
const streaming = "k8s.io/cri-streaming/"

// libraryHandler is a slog.Handler for what Kubernetes' libraries log. The streaming library logs as an error that a
// connection to a port of a pod has ended, which is part of normal operation, and tells the client in any case: these
// records get the level Debug.
type libraryHandler struct{ slog.Handler }

// Handle implements slog.Handler.
func (h libraryHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level > slog.LevelDebug && within(streaming) {
		if r.Level = slog.LevelDebug; !h.Enabled(ctx, r.Level) {
			return nil
		}
	}
	return h.Handler.Handle(ctx, r)
}

// within reports whether a function of a package below a path is being called. The record does not tell: its place is
// that of a helper.
func within(path string) bool {
	counters := make([]uintptr, 32)
	frames := runtime.CallersFrames(counters[:runtime.Callers(1, counters)])
	for {
		frame, more := frames.Next()
		if strings.HasPrefix(frame.Function, path) {
			return true
		}
		if !more {
			return false
		}
	}
}

// WithAttrs implements slog.Handler.
func (h libraryHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return libraryHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h libraryHandler) WithGroup(name string) slog.Handler {
	return libraryHandler{h.Handler.WithGroup(name)}
}
