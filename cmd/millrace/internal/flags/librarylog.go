package flags

import (
	"log/slog"
	"runtime"
	"strings"

	"github.com/millrace/millrace/internal/quiet"
)

// streaming is the path of the library that serves exec, attach and forwarded ports.
const streaming = "k8s.io/cri-streaming/"

// libraryLog is a handler for what Kubernetes' libraries log. The streaming library logs as an error that a connection
// to a port of a pod has ended, which is part of normal operation, and tells the client in any case.
func libraryLog(h slog.Handler) slog.Handler {
	return quiet.Handler{Handler: h, Lower: func(slog.Record) bool { return within(streaming) }}
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
