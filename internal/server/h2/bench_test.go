package h2

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// BenchmarkServers compares this package with net/http under the load of an API server. The figures include the work of
// the clients.
func BenchmarkServers(b *testing.B) {
	for _, who := range []string{"h2", "net/http"} {
		b.Run("small/"+who, func(b *testing.B) { unary(b, who, 0, 100) })
		b.Run("7KB/"+who, func(b *testing.B) { unary(b, who, 7<<10, 7<<10) })
		b.Run("1000streams/"+who, func(b *testing.B) { woken(b, who) })
	}
}

func bench(b *testing.B, who string, h http.HandlerFunc) (address string, c *http.Client) {
	web := httptest.NewUnstartedServer(h)
	web.EnableHTTP2 = true
	web.Config.ErrorLog = log.New(io.Discard, "", 0) // drops messages about connections that were opened and not used
	if who == "h2" {
		server := New(Options{MaxStreams: 2000})
		server.Serve(web.Config)
		web.EnableHTTP2 = false
		web.TLS = &tls.Config{NextProtos: []string{"h2"}}
		b.Cleanup(server.Wait)
	} else {
		web.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 2000}
	}
	web.StartTLS()
	b.Cleanup(web.Close)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	b.Cleanup(transport.CloseIdleConnections)
	return web.URL, &http.Client{Transport: transport}
}

func unary(b *testing.B, who string, in, out int) {
	answer := make([]byte, out)
	address, c := bench(b, who, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Write(answer)
	})
	body := make([]byte, in)
	b.ReportAllocs()
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			answer, err := c.Post(address, "application/json", bytes.NewReader(body))
			if err != nil {
				b.Error(err)
				return
			}
			io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
		}
	})
}

// woken measures the time until a thousand streams have each received a piece of data for which all of them wait.
func woken(b *testing.B, who string) {
	const streams = 1000
	var mu sync.Mutex
	rung, bell := 0, sync.NewCond(&mu)
	piece := make([]byte, 500)
	address, c := bench(b, who, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		defer context.AfterFunc(r.Context(), bell.Broadcast)()
		for heard := 0; ; heard++ {
			mu.Lock()
			for rung == heard && r.Context().Err() == nil {
				bell.Wait()
			}
			mu.Unlock()
			if r.Context().Err() != nil {
				return
			}
			w.Write(piece)
			w.(http.Flusher).Flush()
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	var readers, got sync.WaitGroup
	for range streams {
		r, err := http.NewRequestWithContext(ctx, "GET", address, nil)
		if err != nil {
			b.Fatal(err)
		}
		answer, err := c.Do(r)
		if err != nil {
			b.Fatal(err)
		}
		readers.Go(func() {
			defer answer.Body.Close()
			for p := make([]byte, len(piece)); ; {
				if _, err := io.ReadFull(answer.Body, p); err != nil {
					return
				}
				got.Done()
			}
		})
	}
	b.ReportAllocs()
	for b.Loop() {
		got.Add(streams)
		mu.Lock()
		rung++
		bell.Broadcast()
		mu.Unlock()
		got.Wait()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*streams), "ns/piece")
	cancel()
	readers.Wait()
}
