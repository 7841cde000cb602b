package h2

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

func TestCancelledRequestsAreNotServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var served atomic.Int32
		a := newPipeServer(t, Options{MaxStreams: 10}, func(w http.ResponseWriter, r *http.Request) {
			served.Add(1)
			io.WriteString(w, "answer")
		})
		b := a.bare()
		for i := range uint32(100) {
			b.together(func(b *bare) {
				b.ask(1+2*i, false)
				b.must(b.WriteData(1+2*i, false, make([]byte, 10)))
				b.must(b.WriteRSTStream(1+2*i, http2.ErrCodeCancel))
			})
		}
		b.ask(1001, true)
		if got := b.data(1001); string(got) != "answer" || served.Load() != 1 {
			t.Errorf("%q, after %d were served", got, served.Load())
		}
	})
}

func TestUnreadBodiesAreBounded(t *testing.T) {
	var r received
	piece, most := make([]byte, largestFrame), 0
	r.add(piece)
	for range 10_000 {
		r.add(piece)
		if n := r.read(piece); n != len(piece) {
			t.Fatal(n)
		}
		most = max(most, cap(*r.buffer))
	}
	if most > 8*largestFrame {
		t.Errorf("%d bytes are kept of %d", most, r.size())
	}
}

// upload sends a body as fast as the server's windows allow.
func (b *bare) upload(id uint32, size int, pad []byte) {
	b.t.Helper()
	ofConn, ofStream := firstWindow, streamWindow
	for size > 0 {
		n := min(size, 4000)
		for cost := n + len(pad) + 1; ofConn < cost || ofStream < cost; {
			f, err := b.ReadFrame()
			b.must(err)
			switch f := f.(type) {
			case *http2.WindowUpdateFrame:
				if f.StreamID == 0 {
					ofConn += int(f.Increment)
				} else if f.StreamID == id {
					ofStream += int(f.Increment)
				}
			}
		}
		size -= n
		ofConn, ofStream = ofConn-n-len(pad)-1, ofStream-n-len(pad)-1
		b.must(b.WriteDataPadded(id, size == 0, make([]byte, n), pad))
	}
}

func TestPaddedBodyDoesNotUseUpItsWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newPipeServer(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			io.WriteString(w, "all")
		})
		b := a.bare()
		b.ask(1, false)
		b.upload(1, 20*connWindow, make([]byte, 255))
		if got := b.data(1); string(got) != "all" {
			t.Errorf("got %q", got)
		}
	})
}

func TestUnreadBodiesDoNotBlockOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newPipeServer(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/stuck" {
				<-r.Context().Done()
				return
			}
			io.Copy(io.Discard, r.Body)
			io.WriteString(w, "all")
		})
		b := a.bare()
		b.greeted()
		for id := uint32(1); id < 20; id += 2 {
			b.head(id, false, ":method", "POST", ":scheme", "https", ":path", "/stuck", ":authority", "example.com")
			for range streamWindow / largestFrame {
				b.must(b.WriteData(id, false, make([]byte, largestFrame)))
			}
		}
		b.ask(101, false)
		for range 8 {
			b.must(b.WriteData(101, false, make([]byte, largestFrame)))
		}
		b.must(b.WriteData(101, true, nil))
		if got := b.data(101); string(got) != "all" {
			t.Errorf("got %q", got)
		}
	})
}

func TestMemoryOfOpenRequestsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newPipeServer(t, Options{MaxHeader: 10_000}, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		b := a.bare()
		b.ask(1, true, "long", strings.Repeat("x", 9600))
		b.ask(3, true)
		if id, code := b.fault(); id != 3 || code != http2.ErrCodeRefusedStream {
			t.Errorf("stream %d, %v", id, code)
		}
	})
}

func TestEachPieceOfASplitCookieIsCharged(t *testing.T) {
	var n names
	f := &http2.MetaHeadersFrame{}
	for range 25_000 {
		f.Fields = append(f.Fields, hpack.HeaderField{Name: "cookie", Value: "c"})
	}
	if h, _ := n.header(f); len(h.Get("Cookie")) != 3*25_000-2 {
		t.Errorf("%d bytes", len(h.Get("Cookie")))
	}
	if allocations := testing.AllocsPerRun(1, func() { n.header(f) }); allocations > 100 {
		t.Errorf("%v allocations", allocations)
	}
}

func TestLongNamesAreNotRemembered(t *testing.T) {
	var n names
	for i := range 2 * maxNames {
		n.canonical(strings.Repeat("x", i+1))
	}
	for name := range n {
		if len(name) > longestName || len(n) > maxNames {
			t.Fatalf("%d names, one of %d bytes", len(n), len(name))
		}
	}
}

func TestServedStreamsAreThoseInTheGoAwayFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newPipeServer(t, Options{}, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		b := a.bare()
		b.ask(1, true)
		synctest.Wait()
		a.server.Drain()
		b.ask(3, false)
		b.must(b.WriteData(3, true, []byte("of no use")))
		b.must(b.WriteData(101, true, nil)) // a protocol error
		var last []uint32
		b.until(func(f http2.Frame) bool {
			switch f := f.(type) {
			case *http2.GoAwayFrame:
				last = append(last, f.LastStreamID)
			case *http2.RSTStreamFrame:
				t.Errorf("a stream that was declined was reset, too: %v", f)
			}
			return false
		})
		if !slices.Equal(last, []uint32{1, 1}) {
			t.Errorf("got GOAWAY with last stream %v", last)
		}
	})
}

func TestCompleteBodyIsReadAfterTheClientCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read := make(chan error, 1)
		a := newPipeServer(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			_, err := io.ReadAll(r.Body)
			read <- err
		})
		b := a.bare()
		b.ask(1, false)
		b.must(b.WriteData(1, true, []byte("whole")))
		synctest.Wait()
		b.must(b.WriteRSTStream(1, http2.ErrCodeCancel))
		if err := <-read; err != nil {
			t.Error(err)
		}
	})
}
