package h2

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// admit authenticates the client if the path says so, and then calls another handler.
func admit(then http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/unknown" {
			Unauthenticated(r.Context())
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		if r.URL.Path == "/authenticated" {
			Authenticated(r.Context())
		}
		then(w, r)
	}
}

func wait(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// allowed reads until the server says how many streams may be open.
func (b *bare) allowed() (n uint32) {
	b.t.Helper()
	b.until(func(f http2.Frame) bool {
		settings, ok := f.(*http2.SettingsFrame)
		if !ok {
			return false
		}
		n, ok = settings.Value(http2.SettingMaxConcurrentStreams)
		return ok
	})
	return n
}

func TestUnauthenticatedClientMayHaveFewRequestsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newPipeServer(t, Options{MaxStreams: 1000}, wait)
		b := a.bare()
		if n := b.allowed(); n != unauthenticatedStreams {
			t.Errorf("%d are allowed", n)
		}
		for i := range uint32(unauthenticatedStreams + 1) {
			b.ask(1+2*i, true)
		}
		if id, code := b.fault(); id != 1+2*unauthenticatedStreams || code != http2.ErrCodeRefusedStream {
			t.Errorf("stream %d, %v", id, code)
		}
	})
}

func TestAuthenticatedClientMayHaveMoreRequestsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newPipeServer(t, Options{MaxStreams: 1000}, admit(wait))
		b := a.bare()
		b.allowed()
		b.open(1, "/authenticated")
		if n := b.allowed(); n != 1000 {
			t.Errorf("%d are allowed", n)
		}
		for i := range uint32(1000) {
			b.ask(3+2*i, true)
		}
		if id, code := b.fault(); id != 3+2*999 || code != http2.ErrCodeRefusedStream {
			t.Errorf("stream %d, %v", id, code)
		}
	})
}

func TestConnectionOfAnUnauthenticatedClientEndsAfterItsFirstAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newPipeServer(t, Options{}, admit(wait))
		b := a.bare()
		began := time.Now()
		b.open(1, "/unknown")
		var answered, left bool
		b.until(func(f http2.Frame) bool {
			answered = answered || f.Header().Type == http2.FrameData && f.Header().Flags.Has(http2.FlagDataEndStream)
			left = left || f.Header().Type == http2.FrameGoAway && time.Since(began) == 0 // later it ends because it is idle
			return false
		})
		if !answered || !left {
			t.Errorf("answered: %v, told to go: %v", answered, left)
		}
	})
}

func TestAuthenticatedConnectionEndsOnlyAfterManyUnauthenticatedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newPipeServer(t, Options{}, admit(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "answer") }))
		b := a.bare()
		began := time.Now()
		b.open(1, "/authenticated")
		b.data(1)
		id := uint32(3)
		for range nuisanceBurst/refusalCharge - 1 {
			b.open(id, "/unknown")
			b.data(id)
			id += 2
		}
		b.open(id, "/unknown")
		if id, code := b.fault(); id != 0 || code != http2.ErrCodeNo || time.Since(began) != 0 { // later it ends because it is idle
			t.Errorf("stream %d, %v, after %v", id, code, time.Since(began))
		}
	})
}

func TestContextsOfOtherServersAreLeftAlone(t *testing.T) {
	Authenticated(context.Background())
	Unauthenticated(context.Background())
}

func TestAnnouncedTrailersAreChargedForTheirMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running atomic.Int32
		a := newPipeServer(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			running.Add(1)
			wait(w, r)
		})
		b := a.bare()
		for i := range uint32(unauthenticatedStreams) {
			b.ask(1+2*i, true, "trailer", strings.Repeat("ab,", 1300))
		}
		b.greeted()
		// Each request occupies more than 100 KB for a few bytes on the wire, and an unauthenticated client may have 1
		// MiB.
		if n := running.Load(); n < 1 || n > 10 {
			t.Errorf("%d are served", n)
		}
	})
}

func TestReceivedTrailersAreChargedForTheirMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newPipeServer(t, Options{}, wait)
		b := a.bare()
		pairs := []string{}
		for range 200 {
			pairs = append(pairs, "x", strings.Repeat("v", 3000))
		}
		for id := uint32(1); id < 5; id += 2 {
			b.ask(id, false, "trailer", "x")
			b.head(id, true, pairs...)
		}
		if id, code := b.fault(); id != 0 || code != http2.ErrCodeEnhanceYourCalm {
			t.Errorf("stream %d, %v", id, code)
		}
	})
}

func TestAnswersThatTheClientDoesNotReadAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		piece := make([]byte, 1000)
		var served atomic.Pointer[conn]
		a := newPipeServer(t, Options{MaxStreams: 1000}, admit(func(w http.ResponseWriter, r *http.Request) {
			served.Store(r.Context().Value(connKey{}).(*conn))
			for range 30 {
				if _, err := w.Write(piece); err != nil {
					return
				}
			}
		}))
		b := a.bare(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		b.allowed()
		b.open(1, "/authenticated")
		b.allowed()
		for i := range uint32(900) {
			b.ask(3+2*i, true)
		}
		b.must(b.WritePing(false, [8]byte{}))
		b.until(func(f http2.Frame) bool { return f.Header().Type == http2.FramePing })
		time.Sleep(time.Second) // until all have been started: handlers that cannot write keep others waiting for a while
		synctest.Wait()
		if n, most := served.Load().buffered.Load(), served.Load().maxBuffered(); n < most || n > most+900*2*minBuffered+maxPooled {
			t.Errorf("%d bytes are held", n)
		}
	})
}
