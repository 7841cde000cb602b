package journal

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/server/store"
)

// pasts is a store on a simulated disk, which the test runs.
type pasts struct {
	*Store
	t      *testing.T
	disk   *simDisk
	random *rand.Rand
	o      Options
}

func newPasts(t *testing.T, h History) *pasts {
	random := rand.New(rand.NewPCG(1, 1))
	p := &pasts{t: t, disk: newSimDisk(random), random: random, o: Options{SegmentBytes: 1, History: h}}
	p.start()
	return p
}

func (p *pasts) start() {
	p.t.Helper()
	var err error
	if p.Store, err = open(p.o, p.disk, io.NopCloser(nil)); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pasts) end() {
	p.t.Helper()
	if err := p.Close(); err != nil {
		p.t.Fatal(err)
	}
}

// value returns bytes that compression does not make smaller.
func (p *pasts) value() []byte {
	b := make([]byte, 300)
	for i := range b {
		b[i] = byte(p.random.Uint32())
	}
	return b
}

// fill makes changes, and a snapshot of them.
func (p *pasts) fill() {
	p.t.Helper()
	for i := range 50 {
		w := newWrite(fmt.Sprint("/k", i%5))
		w.Value, w.check = p.value(), func() error { return nil }
		if err := p.enqueue(w); err != nil {
			p.t.Fatal(err)
		}
		p.commitWaiting()
	}
	if err := p.snapshot(context.Background()); err != nil {
		p.t.Fatal(err)
	}
}

func TestTheHistorySurvivesAStart(t *testing.T) {
	p := newPasts(t, History{Age: time.Hour, Bytes: 1 << 30})
	p.fill()
	p.end()
	p.start()
	p.fill()
	if oldest := p.Oldest(); oldest != 1 {
		t.Errorf("it begins at %d", oldest)
	}
	p.end()
}

func TestAnEndDuringASnapshotRemovesNothing(t *testing.T) {
	p := newPasts(t, History{Age: time.Hour, Bytes: 1 << 30})
	p.fill()
	p.mu.Lock()
	p.ended = store.ErrClosed // as Close does first
	p.mu.Unlock()
	_ = p.snapshot(context.Background())
	p.mu.Lock()
	p.ended = nil
	p.mu.Unlock()
	p.end()
	p.start()
	if oldest := p.Oldest(); oldest != 1 {
		t.Errorf("it begins at %d", oldest)
	}
	p.end()
}

func TestWhatIsOlderThanTheHistoryGoesFirst(t *testing.T) {
	p := newPasts(t, History{Age: time.Hour, Bytes: 4000})
	for range 10 {
		p.fill()
	}
	oldest, newest := p.Oldest(), p.past.lastSnapshot()
	if oldest == 1 || oldest > newest {
		t.Errorf("it begins at %d, and the newest snapshot is of %d", oldest, newest)
	}
	if _, err := p.List(t.Context(), "/", store.ListOptions{Revision: oldest}); err != nil {
		t.Error(err)
	}
	p.end()
}

func TestABrokenSegmentThatASnapshotHasEndsTheHistoryAndNotTheStore(t *testing.T) {
	p := newPasts(t, History{Age: time.Hour, Bytes: 1 << 30})
	for i := range 30 {
		w := newWrite(fmt.Sprint("/k", i))
		w.Value, w.check = p.value(), func() error { return nil }
		if err := p.enqueue(w); err != nil {
			t.Fatal(err)
		}
		p.commitWaiting()
	}
	p.disk.present[fileName(2, segmentSuffix)].present[headBytes+20] ^= 1
	if err := p.snapshot(context.Background()); err != nil {
		t.Fatal(err)
	}
	rev := p.past.lastSnapshot()
	if oldest := p.Oldest(); oldest != rev {
		t.Errorf("it begins at %d, want %d", oldest, rev)
	}
	p.end()
	p.start()
	page, err := p.List(t.Context(), "/", store.ListOptions{})
	if err != nil || len(page.Entries) != 30 {
		t.Errorf("after a start there are %d, %v", len(page.Entries), err)
	}
	p.end()
}
