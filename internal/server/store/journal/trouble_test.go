package journal

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/server/store"
)

// running opens a store on a disk and lets it run until the test ends.
func running(t *testing.T, o Options, d *simDisk) *Store {
	t.Helper()
	s, err := open(o, d, io.NopCloser(nil))
	if err != nil {
		t.Fatal(err)
	}
	s.run()
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func simple() *simDisk { return newSimDisk(rand.New(rand.NewPCG(1, 1))) }

// noise is a value that compression does not make smaller.
func noise(d *simDisk, n int) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	value := make([]byte, n)
	for i := range value {
		value[i] = byte(d.random.Uint32())
	}
	return value
}

func TestAFailedSyncEndsTheStoreAndTellsWhy(t *testing.T) {
	d, told := simple(), make(chan error, 9)
	s := running(t, Options{Lost: func(err error) { told <- err }}, d)
	rev, err := s.Create(t.Context(), "/a", []byte("x"), 0)
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	d.before = func(name string) (err error) {
		if name == "sync data" {
			once.Do(func() { err = syscall.EIO })
		}
		return err
	}
	for range 3 { // only the first one fails on the disk, and yet none is tried again
		_, err := s.Update(t.Context(), "/a", []byte("y"), rev, 0)
		if !errors.Is(err, syscall.EIO) || s.Writable() == nil {
			t.Errorf("the write has the error %v, and the store %v", err, s.Writable())
		}
	}
	if err := <-told; !strings.Contains(err.Error(), "is lost: sync 0") || len(told) > 0 {
		t.Errorf("told is %v, and %d more", err, len(told))
	}
	if e, err := s.Get(t.Context(), "/a", store.GetOptions{}); err != nil || string(e.Value) != "x" {
		t.Errorf("what is on the disk reads %q, %v", e.Value, err)
	}
}

func TestAFullDiskRefusesWritesLetsDeletesThroughAndRecovers(t *testing.T) {
	d := simple()
	d.space = 10_000
	s := running(t, Options{SegmentBytes: 8192, SnapshotBytes: 1 << 40}, d)
	var made []store.Revision
	for {
		rev, err := s.Create(t.Context(), fmt.Sprint("/", len(made)), noise(d, 100), 0)
		if errors.Is(err, store.ErrNoSpace) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, rev)
	}
	if !errors.Is(s.Writable(), store.ErrNoSpace) || len(made) < 10 {
		t.Errorf("after %d writes the store is writable: %v", len(made), s.Writable())
	}
	for i := range 3 {
		if _, err := s.Delete(t.Context(), fmt.Sprint("/", i), made[i]); err != nil {
			t.Error(err)
		}
	}
	for i, rev := range made[3:] { // until nothing at all has room
		if _, err := s.Delete(t.Context(), fmt.Sprint("/", i+3), rev); err != nil && !errors.Is(err, store.ErrNoSpace) {
			t.Error(err)
		}
	}
	d.mu.Lock()
	d.space = -1
	d.mu.Unlock()
	if _, err := s.Create(t.Context(), "/again", nil, 0); err != nil || s.Writable() != nil {
		t.Errorf("with space again: %v, %v", err, s.Writable())
	}
}

// A snapshot is the only way to make room when the log itself has filled the disk.
func TestALogThatHasFilledTheDiskMakesRoomForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := simple()
		d.space = 40_000
		s := running(t, Options{SegmentBytes: 8192, SnapshotBytes: 1 << 40}, d)
		rev, err := s.Create(t.Context(), "/a", nil, 0)
		refused := 0
		for range 2000 {
			next, failed := s.Update(t.Context(), "/a", noise(d, 100), rev, 0)
			if errors.Is(failed, store.ErrNoSpace) {
				refused++
				synctest.Wait()
				continue
			}
			if rev, err = next, errors.Join(err, failed); err != nil {
				t.Fatal(err)
			}
		}
		if refused == 0 || refused > 200 {
			t.Errorf("%d of 2,000 writes were refused", refused)
		}
	})
}

func TestAnExpiredEntryIsDeletedOnceThereIsSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := simple()
		d.space = 5000
		s := running(t, Options{SegmentBytes: 4096}, d)
		long := "/" + string(noise(d, 600)) // so long that even its delete has no room
		if _, err := s.Create(t.Context(), long, nil, time.Minute); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Create(t.Context(), "/b", noise(d, 3000), 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		if _, err := s.Get(t.Context(), long, store.GetOptions{}); err != nil || !errors.Is(s.Writable(), store.ErrNoSpace) {
			t.Fatal("the disk is not full", err, s.Writable())
		}
		d.mu.Lock()
		d.space = -1
		d.mu.Unlock()
		time.Sleep(time.Minute)
		if _, err := s.Get(t.Context(), long, store.GetOptions{}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the error is %v", err)
		}
	})
}

// A client may write what looks like a record, and a crash may break the one that has it.
func TestAValueThatLooksLikeARecordIsNotTakenForOne(t *testing.T) {
	c := newCodec()
	defer c.close()
	head, s := newHead()
	evil := c.append(nil, 0, record{group: 1000, last: true, changes: []change{{key: "/evil", revision: 1000}}})
	b, _ := c.appendGroup(head, s, 2, []change{{key: "/a", value: evil, revision: 2}})
	b[headBytes+headerBytes+3] ^= 1
	opened := &Store{codec: c}
	if opened.codec.anyGroupIn(b[headBytes:], s, 2) {
		t.Error("it is")
	}
	if !opened.codec.anyGroupIn(evil, 0, 2) {
		t.Error("the test shows nothing")
	}
}
