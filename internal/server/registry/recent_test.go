package registry

import (
	"runtime"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/server/store"
)

func TestRecentKeepsNoMemory(t *testing.T) {
	var r recent
	e := store.Entry{Key: "/registry/pods/a/b", Value: make([]byte, 1<<20), Revision: 7}
	gone := make(chan struct{})
	runtime.AddCleanup(&e.Value[0], func(struct{}) { close(gone) }, struct{}{})
	r.keep(e)
	if found, ok := r.find(e.Key); !ok || found.Revision != 7 {
		t.Fatalf("found %v, %v", found.Revision, ok)
	}
	if _, ok := r.find("/registry/pods/a/c"); ok {
		t.Error("another key was found")
	}
	e = store.Entry{Key: e.Key}
	for range 1000 {
		runtime.GC()
		select {
		case <-gone:
			if _, ok := r.find(e.Key); ok {
				t.Error("found without its value")
			}
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Fatal("the value is still kept")
}
