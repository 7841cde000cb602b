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

// sharedListener is a listener that outlives the servers that use it.
type sharedListener struct {
	net.Listener
	accepted chan net.Conn
}

func open(t *testing.T) sharedListener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := sharedListener{l, make(chan net.Conn)}
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

// shift is the time for which one server uses a shared listener.
type shift struct {
	sharedListener
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

// relay runs one server after the other on a shared listener.
type relay struct {
	sharedListener
	handler  http.Handler
	answered chan struct{} // receives a token for each answered request
	finished chan struct{} // closed when no client sends requests any more
}

// run lets the servers take turns, each for some requests.
func (r *relay) run(t *testing.T) {
	var draining sync.WaitGroup
	defer draining.Wait()
	for {
		s := New(Options{})
		web := &http.Server{Handler: r.handler, TLSConfig: &tls.Config{Certificates: certificates()}}
		s.Serve(web)
		served := shift{r.sharedListener, make(chan struct{}), new(sync.Once)}
		var serving sync.WaitGroup
		serving.Go(func() { web.ServeTLS(served, "", "") })
		goesOn := r.wait(20)
		draining.Go(func() { // while the next server is running already
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			if err := web.Shutdown(ctx); err != nil {
				t.Error(err)
			}
			s.Wait()
			serving.Wait()
		})
		<-served.over
		if !goesOn {
			return
		}
	}
}

// wait waits until that many requests were answered. It returns false if no client sends requests any more.
func (r *relay) wait(requests int) bool {
	for range requests {
		select {
		case <-r.answered:
		case <-r.finished:
			return false
		}
	}
	return true
}

func TestEachRequestIsServedOnceWhenServersTakeOver(t *testing.T) {
	const clients, requests = 4, 100
	var done sync.Map // how often each request was served
	r := &relay{sharedListener: open(t), answered: make(chan struct{}, 2*clients*requests), finished: make(chan struct{})}
	r.handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		times, _ := done.LoadOrStore(req.URL.Path, new(atomic.Int32))
		times.(*atomic.Int32).Add(1)
		b, err := io.ReadAll(req.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		w.Write(append(b, b...))
		r.answered <- struct{}{}
	})
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	ask := func(path string, body []byte) {
		req, err := http.NewRequestWithContext(t.Context(), "POST", "https://"+r.Addr().String()+path, bytes.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		answer, err := transport.RoundTrip(req)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return
		}
		defer answer.Body.Close()
		if b, err := io.ReadAll(answer.Body); err != nil || len(b) != 2*len(body) {
			t.Errorf("%s: %d bytes, %v", path, len(b), err)
		}
		if times, _ := done.Load(path); times.(*atomic.Int32).Load() != 1 {
			t.Errorf("%s: served %d times", path, times.(*atomic.Int32).Load())
		}
	}
	var serving, asking sync.WaitGroup
	serving.Go(func() { r.run(t) })
	for i := range clients {
		asking.Go(func() {
			for n := range requests {
				ask(fmt.Sprintf("/%d/%d", i, n), bytes.Repeat([]byte("x"), n*200))
			}
		})
	}
	asking.Wait()
	close(r.finished)
	transport.CloseIdleConnections()
	serving.Wait()
}
