package h2

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// desk is a listener that outlives those who serve what it accepts.
type desk struct {
	net.Listener
	accepted chan net.Conn
}

func open(t *testing.T) desk {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := desk{l, make(chan net.Conn)}
	var accepting sync.WaitGroup
	accepting.Go(func() {
		defer close(d.accepted)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			d.accepted <- c
		}
	})
	t.Cleanup(func() {
		l.Close()
		for c := range d.accepted {
			c.Close()
		}
		accepting.Wait()
	})
	return d
}

// shift is how long one server stands at a desk.
type shift struct {
	desk
	over chan struct{}
	once *sync.Once
}

func (s shift) Accept() (net.Conn, error) {
	select {
	case c, ok := <-s.accepted:
		if ok {
			return c, nil
		}
	case <-s.over:
	}
	return nil, net.ErrClosed
}

func (s shift) Close() error {
	s.once.Do(func() { close(s.over) })
	return nil
}

func TestNothingIsDoneTwiceOrNotAtAllWhenServersTakeOver(t *testing.T) {
	d := open(t)
	var done sync.Map // how often each request was served
	var finished atomic.Bool
	var count atomic.Int32
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		times, _ := done.LoadOrStore(r.URL.Path, new(atomic.Int32))
		times.(*atomic.Int32).Add(1)
		b, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		w.Write(append(b, b...))
		count.Add(1)
	})
	var servers, clients sync.WaitGroup
	servers.Go(func() {
		for shifts := 0; !finished.Load(); shifts++ {
			s := New(Options{})
			web := &http.Server{Handler: handler, TLSConfig: &tls.Config{Certificates: certificates()}}
			s.Serve(web)
			served := shift{d, make(chan struct{}), new(sync.Once)}
			var serving sync.WaitGroup
			serving.Go(func() { web.ServeTLS(served, "", "") })
			for enough := count.Load() + 20; count.Load() < enough && !finished.Load(); {
				time.Sleep(time.Millisecond)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			servers.Go(func() { // while the next one is there already
				defer cancel()
				if err := web.Shutdown(ctx); err != nil {
					t.Error(err)
				}
				s.Wait()
				serving.Wait()
			})
			<-served.over
		}
	})
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	for i := range 4 {
		clients.Go(func() {
			for n := range 100 {
				path, body := fmt.Sprintf("/%d/%d", i, n), bytes.Repeat([]byte("x"), n*200)
				r, err := http.NewRequestWithContext(t.Context(), "POST", "https://"+d.Addr().String()+path, bytes.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				answer, err := transport.RoundTrip(r)
				if err != nil {
					t.Errorf("%s: %v", path, err)
					continue
				}
				if b, err := io.ReadAll(answer.Body); err != nil || len(b) != 2*len(body) {
					t.Errorf("%s: %d bytes, %v", path, len(b), err)
				}
				answer.Body.Close()
				if times, _ := done.Load(path); times.(*atomic.Int32).Load() != 1 {
					t.Errorf("%s: served %d times", path, times)
				}
			}
		})
	}
	clients.Wait()
	finished.Store(true)
	transport.CloseIdleConnections()
	servers.Wait()
}
