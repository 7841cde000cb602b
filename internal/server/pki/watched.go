package pki

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"
)

// watchEvery is how often files are read again.
const watchEvery = 10 * time.Second

// Watched is a value made from files, and made again when they change.
type Watched[T any] struct {
	paths   []string
	parse   func(texts [][]byte) (T, error)
	log     *slog.Logger
	current atomic.Pointer[T]
	texts   [][]byte // the contents from which the current value was made
	failed  [][]byte // the contents from which no value could be made
}

// Watch reads files and makes a value from them. Run follows their changes.
func Watch[T any](log *slog.Logger, parse func(texts [][]byte) (T, error), paths ...string) (*Watched[T], error) {
	w := &Watched[T]{paths: paths, parse: parse, log: log}
	texts, err := w.read()
	if err != nil {
		return nil, err
	}
	return w, w.make(texts)
}

// Get returns the last valid value.
func (w *Watched[T]) Get() T { return *w.current.Load() }

// Run follows the files until ctx ends.
func (w *Watched[T]) Run(ctx context.Context) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			w.reload()
		}
	}
}

// reload reads the files and makes a new value if they have changed. Invalid content is reported once. Files that
// belong together may be replaced one after the other, so reload tries again when they change again.
func (w *Watched[T]) reload() {
	texts, err := w.read()
	if err == nil {
		if same(texts, w.texts) {
			w.failed = nil
			return
		}
		if same(texts, w.failed) {
			return
		}
		if err = w.make(texts); err == nil {
			w.log.Info("files were read again", "files", w.paths)
			w.failed = nil
			return
		}
	}
	if !same(texts, w.failed) {
		w.log.Error("changed files are invalid: their previous content stays in use", "files", w.paths, "error", err)
	}
	w.failed = texts
}

func (w *Watched[T]) make(texts [][]byte) error {
	value, err := w.parse(texts)
	if err != nil {
		return err
	}
	w.texts = texts
	w.current.Store(&value)
	return nil
}

// read reads all files. With an error it returns those that it could read.
func (w *Watched[T]) read() (texts [][]byte, err error) {
	texts = make([][]byte, len(w.paths))
	for i, path := range w.paths {
		if texts[i], err = os.ReadFile(path); err != nil {
			return texts, err
		}
	}
	return texts, nil
}

func same(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) }

// WatchPair follows the files of a certificate and its key.
func WatchPair(log *slog.Logger, certFile, keyFile string) (*Watched[*tls.Certificate], error) {
	return Watch(log, func(texts [][]byte) (*tls.Certificate, error) {
		pair, err := tls.X509KeyPair(texts[0], texts[1])
		if err != nil {
			return nil, fmt.Errorf("%s and %s: %w", certFile, keyFile, err)
		}
		return &pair, nil
	}, certFile, keyFile)
}

// WatchAuthorities follows a file of authorities. Each value also contains those of base.
func WatchAuthorities(log *slog.Logger, base func() *x509.CertPool, file string) (*Watched[*x509.CertPool], error) {
	return Watch(log, func(texts [][]byte) (*x509.CertPool, error) {
		pool := base()
		if !pool.AppendCertsFromPEM(texts[0]) {
			return nil, fmt.Errorf("%s holds no PEM certificate", file)
		}
		return pool, nil
	}, file)
}
