package serving

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/filelock"
	"github.com/millrace/millrace/internal/server/store"
)

// rewriteEvery is how often the kubeconfig is checked for a renewed certificate.
const rewriteEvery = 6 * time.Hour

// kubeconfigWriter is a cluster whose kubeconfig changes when its certificate is renewed.
type kubeconfigWriter interface {
	Kubeconfig() []byte
	WriteKubeconfig(path string) error
}

// keepKubeconfig rewrites the kubeconfig whenever its certificate was renewed, until ctx ends.
func keepKubeconfig(ctx context.Context, c kubeconfigWriter, path string, log *slog.Logger) {
	tick := time.NewTicker(rewriteEvery)
	defer tick.Stop()
	for written := c.Kubeconfig(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		next := c.Kubeconfig()
		if bytes.Equal(next, written) {
			continue
		}
		if err := c.WriteKubeconfig(path); err != nil {
			log.Error("the kubeconfig with the renewed certificate cannot be written", "file", path, "error", err)
			continue
		}
		written = next
	}
}

// Explain returns a one-line error that says why a start has failed and what to do.
func Explain(err error, o millrace.Options, listenFlag string) error {
	var path *fs.PathError
	embedded := len(o.Etcd.Servers) == 0 && o.Data != "memory"
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, syscall.EADDRINUSE) && embedded && InUse(o.Data):
		return fmt.Errorf("a cluster is running in %s already, at %s: use that one, or choose another directory with --data and another address with %s", o.Data, o.Listen, listenFlag)
	case errors.Is(err, syscall.EADDRINUSE) && strings.Contains(err.Error(), o.Listen):
		return fmt.Errorf("%s is in use by another process: choose another address with %s (port 0 takes a free one)", o.Listen, listenFlag)
	case strings.HasPrefix(err.Error(), "cannot listen on"):
		return fmt.Errorf("%w: choose another address with %s", err, listenFlag)
	case embedded && InUse(o.Data):
		return fmt.Errorf("the data directory %s is in use by another process: end that one, or choose another directory with --data", o.Data)
	case !embedded && errors.Is(err, store.ErrUnavailable):
		return fmt.Errorf("no etcd answers at %s: start it, or correct --etcd-servers and the certificates for it (%s)", strings.Join(o.Etcd.Servers, ", "), Line(err))
	case embedded && errors.As(err, &path) && (strings.HasPrefix(path.Path, o.Data) || strings.HasPrefix(o.Data, path.Path)):
		return fmt.Errorf("the data directory %s cannot be used: %w: choose another with --data", o.Data, path)
	}
	return err
}

// InUse reports whether another cluster uses the data directory.
func InUse(data string) bool {
	f, err := os.Open(filepath.Join(data, "journal", "lock"))
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(filelock.Try(f), filelock.ErrLocked)
}

// Lines returns the errors that were joined into one, each in one line.
func Lines(err error) (all []string) {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []string{Line(err)}
	}
	texts := make([]string, 0, 2)
	for _, one := range joined.Unwrap() {
		texts = append(texts, one.Error())
		all = append(all, Lines(one)...)
	}
	if err.Error() != strings.Join(texts, "\n") { // it is a sentence about several errors
		return []string{Line(err)}
	}
	return all
}

// Line joins the lines of an error: with semicolons, but for those after a question or a colon, which belong to it.
func Line(err error) string {
	joined := ""
	for line := range strings.Lines(err.Error()) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
			continue
		case joined == "":
		case strings.HasSuffix(joined, "?"), strings.HasSuffix(joined, ":"):
			joined += " "
		default:
			joined += "; "
		}
		joined += line
	}
	return joined
}
