// Package limit is the bare limit to which servers are compared: a Go HTTP/2 server with TLS and client certificates
// that sends prepared bytes, and the log of package journal that is called without a server.
//
// It serves only those paths of the API that the benchmark uses, and validates nothing. What is written is sent to all
// watchers; what is read has been prepared.
package limit

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/bench/internal/objects"
	"github.com/millrace/millrace/internal/server/pki"
)

// Options of a server.
type Options struct {
	Listen string
	// Data is the directory for the log and the keys.
	Data string
	// Pods is the number of pods in a list.
	Pods int
}

// Run serves until ctx ends.
func Run(ctx context.Context, o Options) error {
	keys, err := pki.Open(filepath.Join(o.Data, "pki"), []string{"127.0.0.1"}, time.Now())
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return err
	}
	s := &server{o: o, feed: newFeed()}
	s.setPod(objects.ServedPod().With(objects.Fill{Name: objects.Name('p', 0)}))
	web := &http.Server{Handler: s.routes(), TLSConfig: requireCertificates(keys), ReadHeaderTimeout: 30 * time.Second,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 1000}, BaseContext: func(net.Listener) context.Context { return ctx }}
	var serving sync.WaitGroup
	serving.Go(func() { err = web.ServeTLS(l, "", "") })
	<-ctx.Done()
	web.Close()
	serving.Wait()
	if s.puts != nil {
		s.puts.Close()
	}
	return nil
}

// requireCertificates requires and verifies a client certificate, as any API server does.
func requireCertificates(k *pki.Keys) *tls.Config {
	c := pki.ServerTLS(pki.ServerOptions{Serving: k.Serving.TLS, Clients: k.Clients})
	inner := c.GetConfigForClient
	c.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		config, err := inner(h)
		config.ClientAuth = tls.RequireAndVerifyClientCert
		return config, err
	}
	return c
}

type server struct {
	o    Options
	feed *feed

	mu    sync.Mutex
	pod   []byte            // guarded by mu; never changed in place
	lists map[string][]byte // guarded by mu
	puts  *puts             // guarded by mu; made at the first use
}

func (s *server) routes() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })
	m.HandleFunc("PUT /sample/pod", s.setSample)
	m.HandleFunc("POST /puts", s.put)
	m.HandleFunc("GET /api/v1/namespaces/default/pods", s.list)
	m.HandleFunc("GET /api/v1/namespaces/default/pods/{name}", s.get)
	m.HandleFunc("GET /api/v1/namespaces/default/configmaps", s.watch)
	m.HandleFunc("POST /api/v1/namespaces/default/configmaps", s.write)
	m.HandleFunc("PUT /api/v1/namespaces/default/configmaps/{name}", s.write)
	return m
}

// setSample sets the pod and the config map of a real server, so that its pods look like those.
func (s *server) setSample(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.setPod(b)
}

func (s *server) setPod(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pod, s.lists = b, map[string][]byte{}
}

func (s *server) get(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	pod := s.pod
	s.mu.Unlock()
	send(w, pod, "application/json")
}

func send(w http.ResponseWriter, b []byte, contentType string) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	for piece := range slices.Chunk(b, maxGathered) {
		if _, err := w.Write(piece); err != nil {
			return
		}
	}
}

// write makes a frame once and appends it for all watchers.
func (s *server) write(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.feed.append(b)
	send(w, b, "application/json")
}

func (s *server) watch(w http.ResponseWriter, r *http.Request) {
	packed := strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
	w.Header().Set("Content-Type", "application/json")
	if packed {
		w.Header().Set("Content-Encoding", "gzip")
	}
	flush := w.(http.Flusher).Flush
	at := s.feed.end()
	flush()
	if packed {
		w.Write(gzipHead)
	}
	for {
		frame, wake := s.feed.after(at)
		if frame != nil {
			if at = sendFrom(w, frame, packed); at == nil {
				return
			}
			continue
		}
		flush()
		select {
		case <-wake:
		case <-r.Context().Done():
			return
		}
	}
}

// frameBuffers collect frames that are sent with one write: separate writes would cost more than copying.
var frameBuffers = sync.Pool{New: func() any { return new([]byte) }}

const maxGathered = 256 << 10

// sendFrom sends a frame and those after it, and returns the last; nil if the watcher has disconnected.
func sendFrom(w http.ResponseWriter, f *frame, packed bool) *frame {
	b := frameBuffers.Get().(*[]byte)
	defer frameBuffers.Put(b)
	*b = append((*b)[:0], f.bytes(packed)...)
	for next := f.next.Load(); next != nil && len(*b) < maxGathered; next = f.next.Load() {
		f = next
		*b = append(*b, f.bytes(packed)...)
	}
	if _, err := w.Write(*b); err != nil {
		return nil
	}
	return f
}

func (s *server) put(w http.ResponseWriter, r *http.Request) {
	var order PutOrder
	if err := json.NewDecoder(r.Body).Decode(&order); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	if s.puts == nil {
		var err error
		if s.puts, err = openPuts(filepath.Join(s.o.Data, "journal")); err != nil {
			s.mu.Unlock()
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	p := s.puts
	s.mu.Unlock()
	result, err := p.run(r.Context(), order)
	if err != nil {
		http.Error(w, fmt.Sprintf("puts: %v", err), http.StatusInternalServerError)
		return
	}
	json.NewEncoder(w).Encode(result)
}
