package etcd

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/millrace/millrace/internal/server/store"
)

func TestFilesOfARunningMemberCanBeReached(t *testing.T) {
	dir := t.TempDir()
	s, err := Embed(t.Context(), EmbedOptions{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	log, err := logOf(s.engine.(*embedded).member().server)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filesOf(log)
	if err != nil || len(files) == 0 || filepath.Ext(files[0].Name()) != ".wal" {
		t.Errorf("files %v, %v", files, err)
	}
	databases.mu.Lock()
	defer databases.mu.Unlock()
	if n := len(databases.byPath[databaseFile(dir)]); n != 1 {
		t.Errorf("%d database files", n)
	}
}

func TestTheNextStartDoesNotReadTheWholeDatabase(t *testing.T) {
	s, err := Embed(t.Context(), EmbedOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	db, err := database(s.engine.(*embedded).member().server)
	if err != nil {
		t.Fatal(err)
	}
	if db.NoFreelistSync {
		t.Error("which pages are free is not kept on disk")
	}
}

// TestRevivalLeavesAllOtherFilesAlone makes members fail again and again, while other files that get the same
// descriptor numbers are opened and closed. A call keeps each member from being stopped, so its files are closed while
// it has them, and it closes them once more when the call returns.
func TestRevivalLeavesAllOtherFilesAlone(t *testing.T) {
	s, err := Embed(t.Context(), EmbedOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	stop := make(chan struct{})
	var others sync.WaitGroup
	for range 4 {
		others.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					talk(t)
				}
			}
		})
	}
	for round := range 3 {
		m := s.engine.(*embedded).member()
		if err := m.enter(); err != nil {
			t.Fatal(err)
		}
		m.fail(syscall.EIO)
		writeAgain(t, s, round, map[string]store.Revision{})
		m.leave()
	}
	close(stop)
	others.Wait()
}

// talk sends a word through a new pipe.
func talk(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Error(err)
		return
	}
	defer r.Close()
	word := []byte("word")
	if _, err := w.Write(word); err != nil {
		t.Error(err)
	}
	w.Close()
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, word) {
		t.Errorf("%q came through, %v", got, err)
	}
}
