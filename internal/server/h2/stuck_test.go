package h2

import (
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// wide is a setting that allows the server to send as much as it likes.
var wide = http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30}

// greeted reads until the server has acknowledged the client's settings.
func (b *bare) greeted() {
	b.until(func(f http2.Frame) bool {
		return f.Header().Type == http2.FrameSettings && f.Header().Flags.Has(http2.FlagSettingsAck)
	})
	synctest.Wait()
}

func (b *bare) widen() { b.must(b.WriteWindowUpdate(0, largestWindow-firstWindow)) }

// unlimited connects as a client that allows the server to send as much as it likes.
func (p *pipeServer) unlimited() *bare {
	p.t.Helper()
	b := p.bare(wide)
	b.widen()
	b.greeted()
	return b
}

// exhaust reads data of a stream until the connection's first window is used up, and the server waits for more.
func (b *bare) exhaust(id uint32) {
	b.t.Helper()
	for got := 0; got < firstWindow; {
		got += len(b.data(id))
	}
	synctest.Wait()
}

// flood starts a server whose answers are longer than the queue. It returns the errors that its handlers get.
func flood(t *testing.T) (a *pipeServer, heard <-chan error) {
	errs := make(chan error, 1)
	return newPipeServer(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		_, err := w.Write(make([]byte, 4*maxQueued))
		errs <- err
	}), errs
}

func TestQueuedFramesAreSentAlthoughTheirWriterStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newPipeServer(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/long" {
				io.WriteString(w, "short")
				return
			}
			w.Write(make([]byte, maxQueued+maxQueued/2)) // has to send the first part in order to queue the second
			<-r.Context().Done()
		})
		b := a.unlimited()
		b.open(1, "/long")
		synctest.Wait() // it is writing, and the client does not read
		b.open(3, "/short")
		synctest.Wait()
		if got := b.data(3); string(got) != "short" {
			t.Errorf("got %q", got)
		}
	})
}

func TestStreamsThatWaitTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newPipeServer(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			w.Write(make([]byte, firstWindow))
		})
		b := a.bare(wide)
		for id := uint32(1); id < 10; id += 2 {
			b.open(id, "/")
		}
		for got := 0; got < firstWindow; {
			if f := b.until(func(f http2.Frame) bool { return f.Header().Type == http2.FrameData }); f != nil {
				got += int(f.Header().Length)
			}
		}
		synctest.Wait()
		// One may have had the whole window while the others wait. Then each gets a few bytes before one gets more.
		var first []uint32
		for range 13 {
			b.must(b.WriteWindowUpdate(0, 10))
			f := b.until(func(f http2.Frame) bool { return f.Header().Type == http2.FrameData && f.Header().Length > 0 })
			if f == nil || f.Header().Length != 10 {
				t.Fatalf("got %v", f)
			}
			first = append(first, f.Header().StreamID)
			synctest.Wait()
		}
		first = first[5:] // one was still writing at first
		if !slices.Equal(first[:4], first[4:]) && !slices.Equal(first[:3], first[5:]) {
			t.Errorf("turns: %v", first)
		}
	})
}

func TestStreamThatCannotUseItsTurnPassesItOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newPipeServer(t, Options{}, func(w http.ResponseWriter, r *http.Request) { w.Write(make([]byte, 2*firstWindow)) })
		b := a.bare(wide)
		b.open(1, "/") // uses the whole window of the connection, and waits
		b.exhaust(1)
		b.open(3, "/") // waits behind it
		synctest.Wait()
		b.must(b.WriteWindowUpdate(3, 1<<30-1))
		b.must(b.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}))
		b.greeted()
		b.must(b.WriteWindowUpdate(0, 10))
		if got := b.data(3); len(got) != 10 {
			t.Errorf("%d bytes", len(got))
		}
	})
}

func TestSpaceThatOneStreamLeavesGoesToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newPipeServer(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			switch r.URL.Path {
			case "/all":
				w.Write(make([]byte, firstWindow))
				return
			case "/lazy": // its piece may wait
				w.Write(make([]byte, 10))
				<-r.Context().Done()
			}
			w.Write(make([]byte, 10))
		})
		b := a.bare(wide)
		b.open(1, "/all")
		b.exhaust(1)
		for id, path := range []string{"/lazy", "/lazy", "/eager"} {
			b.open(uint32(3+2*id), path)
			b.until(func(f http2.Frame) bool { return f.Header().Type == http2.FrameHeaders })
			synctest.Wait()
		}
		b.must(b.WriteWindowUpdate(0, 30))
		if got := b.data(7); len(got) != 10 {
			t.Errorf("%d bytes", len(got))
		}
	})
}

func TestHandlerIsNotBlockedForeverByAClientThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, heard := flood(t)
		b := a.unlimited()
		begun := time.Now()
		b.ask(1, true)
		if err := <-heard; !errors.Is(err, errClientGone) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(begun); took > time.Minute {
			t.Errorf("after %v", took)
		}
		a.server.Wait()
	})
}

func TestAnswerThatTheClientDoesNotReadIsAborted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newPipeServer(t, Options{}, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "answer") })
		b := a.bare(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		b.ask(1, true)
		begun := time.Now()
		if id, code := b.fault(); id != 1 || code != http2.ErrCodeInternal {
			t.Errorf("stream %d, %v", id, code)
		}
		if took := time.Since(begun); took != 30*time.Second {
			t.Errorf("after %v", took)
		}
	})
}

func TestSlowClientIsNotMistakenForOneThatReadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 2 * maxQueued
		a := newPipeServer(t, Options{}, func(w http.ResponseWriter, r *http.Request) { w.Write(make([]byte, size)) })
		b := a.bare(wide)
		b.widen()
		b.ask(1, true)
		for got := 0; got < size; {
			time.Sleep(5 * time.Second)
			f := b.until(func(f http2.Frame) bool { return f.Header().Type == http2.FrameData })
			if f == nil {
				t.Fatalf("ended after %d bytes", got)
			}
			got += int(f.Header().Length)
		}
	})
}

func TestServerReadsFromAClientThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newPipeServer(t, Options{}, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "answer") })
		b := a.bare()
		for range 2000 { // each of them is answered
			b.must(b.WritePing(false, [8]byte{}))
		}
		b.ask(1, true)
		if got := b.data(1); string(got) != "answer" {
			t.Errorf("got %q", got)
		}
	})
}

func TestShutdownDoesNotWaitForClientsThatDoNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newPipeServer(t, Options{}, func(w http.ResponseWriter, r *http.Request) { w.Write(make([]byte, 4*maxQueued)) })
		stuck := make([]*bare, 5)
		for i := range stuck {
			stuck[i] = a.unlimited()
			stuck[i].ask(1, true)
		}
		idle := a.bare()
		synctest.Wait()
		a.server.Drain()
		if id, code := idle.fault(); id != 0 || code != http2.ErrCodeNo {
			t.Errorf("stream %d, %v", id, code)
		}
		begun := time.Now()
		a.server.Close()
		if took := time.Since(begun); took != 0 {
			t.Errorf("closing took %v", took)
		}
	})
}

func TestProtocolErrorEndsAConnectionWhoseClientDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, heard := flood(t)
		b := a.unlimited()
		b.ask(1, true)
		synctest.Wait()
		begun := time.Now()
		b.must(b.WriteData(3, true, nil)) // before its head
		<-heard
		a.serving.Wait()
		if took := time.Since(begun); took > lingerTime {
			t.Errorf("after %v", took)
		}
	})
}

func TestRequestIsServedThoughTheNextFrameIsNotComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newPipeServer(t, Options{}, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "answer") })
		b := a.bare()
		b.together(func(b *bare) {
			b.ask(1, true)
			b.must(b.WriteRawFrame(http2.FramePing, 0, 0, make([]byte, 8)))
		})
		b.together(func(b *bare) {
			b.ask(3, true)
			b.must(b.WriteRawFrame(http2.FrameHeaders, 0, 5, nil))
		})
		if got := b.data(3); string(got) != "answer" {
			t.Errorf("got %q", got)
		}
	})
}

func TestPrefaceIsReadWhileTheServerShutsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newPipeServer(t, Options{}, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "answer") })
		a.server.Drain()
		secure := a.dial()
		b := newBare(t, secure)
		if f, ok := b.until(func(f http2.Frame) bool { return f.Header().Type == http2.FrameGoAway }).(*http2.GoAwayFrame); !ok || f.LastStreamID != 0 || f.ErrCode != http2.ErrCodeNo {
			t.Errorf("got %v", f)
		}
	})
}

func TestHandlerWithADeadlineIsNotBlockedByAClosedWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heard := make(chan error, 1)
		a := newPipeServer(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(10 * time.Second)); err != nil {
				t.Error(err)
			}
			_, err := w.Write(make([]byte, 2*maxBuffered))
			heard <- err
		})
		b := a.bare(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		begun := time.Now()
		b.ask(1, true)
		if err := <-heard; !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) != 10*time.Second {
			t.Errorf("got %v after %v", err, time.Since(begun))
		}
	})
}
