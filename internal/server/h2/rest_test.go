package h2

import (
	"io"
	"net/http"
	"runtime"
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"
)

// closed is a setting that does not allow the server to send any data.
var closed = http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}

func TestFinishedAnswersThatAreNotReadHoldNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams = 500
		a := newPipeServer(t, Options{MaxStreams: 1000}, admit(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "answer") }))
		b := a.bare(closed)
		b.allowed()
		b.open(1, "/authenticated")
		b.allowed()
		go b.until(func(http2.Frame) bool { return false })
		synctest.Wait()
		before := runtime.NumGoroutine()
		for i := range uint32(streams) {
			b.open(3+2*i, "/")
		}
		synctest.Wait()
		if more := runtime.NumGoroutine() - before; more > 64 { // idle workers
			t.Errorf("%d goroutines for %d answers", more, streams)
		}
	})
}

func TestTheRestOfAnAnswerIsSentAsTheClientAllows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newPipeServer(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(http.TrailerPrefix+"Sum", "42")
			io.WriteString(w, "answer")
		})
		b := a.bare(closed)
		b.open(1, "/")
		b.until(func(f http2.Frame) bool { return f.Header().Type == http2.FrameHeaders })
		synctest.Wait()
		for _, want := range "answer" {
			b.must(b.WriteWindowUpdate(1, 1))
			if got := b.data(1); string(got) != string(want) {
				t.Fatalf("got %q, want %q", got, want)
			}
		}
		f := b.until(func(f http2.Frame) bool { return f.Header().Type == http2.FrameHeaders })
		if f == nil || !f.Header().Flags.Has(http2.FlagHeadersEndStream) {
			t.Errorf("the trailers are %v", f)
		}
	})
}

func TestTheRestsOfAnswersShareTheWindowOfTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const each, streams = 1000, 100
		a := newPipeServer(t, Options{}, func(w http.ResponseWriter, r *http.Request) { w.Write(make([]byte, each)) })
		b := a.bare(wide)
		got, ended := map[uint32]int{}, 0
		go b.until(func(f http2.Frame) bool {
			if d, ok := f.(*http2.DataFrame); ok {
				got[d.StreamID] += len(d.Data())
				if d.StreamEnded() {
					ended++
				}
			}
			return false
		})
		for i := range uint32(streams) {
			b.ask(1+2*i, true)
		}
		synctest.Wait()
		if ended >= streams {
			t.Fatal("all were sent at once")
		}
		for range each * streams / 700 { // pieces that are no answer's size
			b.must(b.WriteWindowUpdate(0, 700))
		}
		synctest.Wait()
		if ended != streams {
			t.Errorf("%d of %d have ended", ended, streams)
		}
		for id, n := range got {
			if n != each {
				t.Errorf("stream %d: %d bytes", id, n)
			}
		}
	})
}

func TestTheConnectionIsClosedWhenTheLastRestHasBeenSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newPipeServer(t, Options{}, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "answer") })
		b := a.bare(closed)
		b.open(1, "/")
		b.until(func(f http2.Frame) bool { return f.Header().Type == http2.FrameHeaders })
		synctest.Wait()
		a.server.Drain()
		b.until(func(f http2.Frame) bool { return f.Header().Type == http2.FrameGoAway })
		b.must(b.WriteWindowUpdate(1, 100))
		if got := b.data(1); string(got) != "answer" {
			t.Errorf("got %q", got)
		}
		b.net.Close()
		a.server.Wait()
	})
}

func TestAClientThatLeavesTakesTheRestsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newPipeServer(t, Options{}, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "answer") })
		b := a.bare(closed)
		go b.until(func(http2.Frame) bool { return false })
		for i := range uint32(10) {
			b.ask(1+2*i, true)
		}
		synctest.Wait()
		b.must(b.WriteRSTStream(1, http2.ErrCodeCancel))
		synctest.Wait()
		b.net.Close()
		a.server.Wait()
	})
}
