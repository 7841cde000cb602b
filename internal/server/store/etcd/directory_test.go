package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/server/store"
)

func TestDirectoryThatIsInUseIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustEmbed(t, dir)
	defer s.Close()
	_, err := Embed(t.Context(), EmbedOptions{Dir: dir})
	if err == nil || err.Error() != "data directory "+dir+" is in use by another process" {
		t.Errorf("embed: %v", err)
	}
}

func TestDirectoryThatEtcdItselfUsesIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	dir := filepath.Join(c.dir, "data")
	_, err := Embed(t.Context(), EmbedOptions{Dir: dir})
	if err == nil || err.Error() != "data directory "+dir+" is in use by another process" {
		t.Errorf("embed: %v", err)
	}
}

func TestDirectoryThatCannotBeWrittenIsNamed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below"), "/proc/nothing"} {
		_, err := Embed(t.Context(), EmbedOptions{Dir: dir})
		if err == nil || !strings.Contains(err.Error(), filepath.Dir(dir)) || !strings.Contains(err.Error(), "data directory") {
			t.Errorf("embed in %q: %v", dir, err)
		}
	}
}

func TestDamagedDirectoryIsAnErrorAndDoesNotEndTheProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := mustEmbed(t, dir).Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(databaseFile(dir), bytes.Repeat([]byte("damaged "), 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := Embed(t.Context(), EmbedOptions{Dir: dir}); err == nil {
		s.Close()
		t.Error("etcd runs on a damaged database")
	}
}

func TestStoresInOneProcessAreSeparate(t *testing.T) {
	t.Parallel()
	var stores []*Store
	for range 2 {
		s := mustEmbed(t, t.TempDir())
		defer s.Close()
		stores = append(stores, s)
	}
	for i, s := range stores {
		if _, err := s.Create(t.Context(), fmt.Sprintf("/%d", i), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	for i, s := range stores {
		page, err := s.List(t.Context(), "/", store.ListOptions{})
		if err != nil || len(page.Entries) != 1 || page.Entries[0].Key != fmt.Sprintf("/%d", i) {
			t.Errorf("store %d holds %v, %v", i, page, err)
		}
	}
}

func TestQuietStartAndEnd(t *testing.T) {
	t.Parallel()
	var out lines
	dir := t.TempDir()
	for range 2 {
		s, err := Embed(t.Context(), EmbedOptions{Dir: dir, Logger: slog.New(slog.NewTextHandler(&out, nil))})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Revision(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if out.String() != "" {
		t.Errorf("it says\n%s", out.String())
	}
}

// lines is a buffer that several goroutines may write to.
type lines struct {
	mu  sync.Mutex
	buf strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func TestNothingRunsAfterClose(t *testing.T) {
	// Not parallel: goroutines of other tests would be counted.
	mustEmbedAndClose := func() {
		s := mustEmbed(t, t.TempDir())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		placed := make(chan struct{}, 1)
		go func() {
			ended <- s.Watch(ctx, "/", 0, func(store.Batch) error { placed <- struct{}{}; return nil })
		}()
		<-placed
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, store.ErrClosed) {
			t.Errorf("watch: %v", err)
		}
		cancel()
	}
	mustEmbedAndClose() // some goroutines live as long as the process
	before := runtime.NumGoroutine()
	for range 3 {
		mustEmbedAndClose()
	}
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}
