package credentials

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/sleep"
)

// readEvery is how often the files are checked for changes.
const readEvery = 10 * time.Second

// Watched is a certificate and its key in files that another program maintains. It is a loop.Runner that reads them
// again when they change. If they cannot be used, the last valid pair stays in use.
type Watched struct {
	certFile, keyFile string
	log               *slog.Logger
	texts             [2][]byte
	current           atomic.Pointer[tls.Certificate]
}

// WatchFiles reads the files for the first time.
func WatchFiles(certFile, keyFile string, log *slog.Logger) (*Watched, error) {
	w := &Watched{certFile: certFile, keyFile: keyFile, log: log}
	return w, w.read()
}

func (w *Watched) read() error {
	var texts [2][]byte
	for i, file := range []string{w.certFile, w.keyFile} {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		texts[i] = text
	}
	if w.current.Load() != nil && bytes.Equal(texts[0], w.texts[0]) && bytes.Equal(texts[1], w.texts[1]) {
		return nil
	}
	pair, err := tls.X509KeyPair(texts[0], texts[1])
	if err != nil {
		return fmt.Errorf("%s and %s: %w", w.certFile, w.keyFile, err)
	}
	w.texts = texts
	w.current.Store(&pair)
	return nil
}

// Get returns the certificate for a connection.
func (w *Watched) Get() (*tls.Certificate, error) { return w.current.Load(), nil }

// Run checks the files regularly until ctx ends.
func (w *Watched) Run(ctx context.Context) error {
	for sleep.For(ctx, readEvery) {
		if err := w.read(); err != nil {
			w.log.Warn("serving certificate cannot be read again", "err", err)
		}
	}
	return nil
}
