package h2

import (
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// TestUselessFramesInLargeNumbersEndTheConnection sends thousands of them.
func TestUselessFramesInLargeNumbersEndTheConnection(t *testing.T) {
	for name, frame := range map[string]func(b *bare, i uint32){
		"requests taken back": func(b *bare, i uint32) {
			b.ask(3+2*i, true)
			b.must(b.WriteRSTStream(3+2*i, http2.ErrCodeCancel))
		},
		"streams that the server resets": func(b *bare, i uint32) {
			b.ask(3+2*i, true)
			b.must(b.WriteRawFrame(http2.FrameWindowUpdate, 0, 3+2*i, make([]byte, 4)))
		},
		"pings":        func(b *bare, _ uint32) { b.must(b.WritePing(false, [8]byte{})) },
		"settings":     func(b *bare, _ uint32) { b.must(b.WriteSettings()) },
		"priorities":   func(b *bare, i uint32) { b.must(b.WritePriority(3+2*i, http2.PriorityParam{Weight: 1})) },
		"empty bodies": func(b *bare, _ uint32) { b.must(b.WriteData(1, false, nil)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newPipeServer(t, Options{}, wait)
				b := a.bare()
				b.ask(1, false)
				b.greeted()
				ended := make(chan http2.ErrCode, 1)
				go func() {
					f := b.until(func(f http2.Frame) bool { return f.Header().Type == http2.FrameGoAway })
					if f != nil {
						ended <- f.(*http2.GoAwayFrame).ErrCode
					}
					close(ended)
					b.until(func(http2.Frame) bool { return false })
				}()
				for i := range uint32(nuisanceBurst / 100) {
					b.together(func(b *bare) {
						for j := range uint32(101) {
							frame(b, 101*i+j)
						}
					})
				}
				if code := <-ended; code != http2.ErrCodeEnhanceYourCalm {
					t.Errorf("ended with %v", code)
				}
			})
		})
	}
}

func TestFramesThatComeSlowlyEndNoConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := nuisance{since: time.Now()}
		for i := range 5 * nuisanceBurst {
			if !u.charge(1) {
				t.Fatalf("ended after %d frames", i)
			}
			time.Sleep(time.Second / nuisanceRate)
		}
	})
}

// counted counts how often it is locked.
type counted struct {
	sync.Mutex
	n int
}

func (c *counted) Lock() {
	c.Mutex.Lock()
	c.n++
}

func TestSettingsWakeNoStreamWhoseWindowStaysClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l counted
		st := &stream{window: 0}
		st.changed.L = &l
		go func() {
			l.Lock()
			defer l.Unlock()
			for st.window <= 0 {
				st.changed.Wait()
			}
		}()
		widen := func(by ...int64) (woken int) {
			synctest.Wait()
			l.Mutex.Lock()
			before := l.n
			for _, n := range by {
				st.widenLocked(n)
			}
			l.Mutex.Unlock()
			synctest.Wait()
			l.Mutex.Lock()
			defer l.Mutex.Unlock()
			return l.n - before
		}
		if n := widen(slices.Repeat([]int64{-1, 1}, 1000)...); n != 0 {
			t.Errorf("woken %d times", n)
		}
		if n := widen(1); n != 1 {
			t.Errorf("woken %d times by a window that opens", n)
		}
	})
}

func TestFrameWithTooManySettingsIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newPipeServer(t, Options{}, func(http.ResponseWriter, *http.Request) {})
		b := a.bare()
		b.must(b.WriteSettings(slices.Repeat([]http2.Setting{wide}, maxSettings+1)...))
		if id, code := b.fault(); id != 0 || code != http2.ErrCodeProtocol {
			t.Errorf("stream %d, %v", id, code)
		}
	})
}

// A client whose connection ends at once connects again, and has the server make another handshake.
func TestConnectionOfAClientThatGoesOnSendingIsKeptForAWhile(t *testing.T) {
	for name, test := range map[string]struct {
		closed bool
		want   time.Duration
	}{
		"until it has lingered":      {false, lingerTime},
		"until the server is closed": {true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newPipeServer(t, Options{}, func(w http.ResponseWriter, r *http.Request) {})
				b := a.bare()
				go io.Copy(io.Discard, b.net)
				begun := time.Now()
				b.must(b.WriteData(1, true, nil)) // before its head
				go func() {
					for piece := make([]byte, lingerBytes); ; {
						if _, err := b.net.Write(piece); err != nil {
							return
						}
					}
				}()
				synctest.Wait()
				if test.closed {
					a.server.Close()
				}
				a.serving.Wait()
				if took := time.Since(begun); took != test.want {
					t.Errorf("after %v", took)
				}
			})
		})
	}
}
