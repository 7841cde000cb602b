package looptest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

var errLost = errors.New("connection reset")

// RoundTrip implements http.RoundTripper.
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	before, after := s.before, s.after
	s.mu.Unlock()
	if before != nil {
		if err := before(r); err != nil {
			return nil, err
		}
	}
	response, err := s.serve(r)
	if err == nil && after != nil {
		if err := after(r); err != nil {
			response.Body.Close()
			return nil, err
		}
	}
	return response, err
}

func (s *Server) serve(r *http.Request) (*http.Response, error) {
	watch := r.Method == http.MethodGet && isTrue(r.URL.Query().Get("watch"))
	if watch && s.expired(r) {
		return refuse(r, apierrors.NewResourceExpired("The resourceVersion for the provided watch is too old."))
	}
	if watch {
		return s.watch(r)
	}
	response, err := s.config.Transport.RoundTrip(r)
	if err != nil || r.URL.Path != "/apis" {
		return response, err
	}
	return s.withoutHidden(response)
}

func isTrue(text string) bool {
	value, err := strconv.ParseBool(text)
	return err == nil && value
}

// expired reports whether a watch begins at an expired revision.
func (s *Server) expired(r *http.Request) bool {
	revision, err := strconv.ParseUint(r.URL.Query().Get("resourceVersion"), 10, 64)
	s.mu.Lock()
	defer s.mu.Unlock()
	return err == nil && revision > 0 && revision < s.oldest
}

func refuse(r *http.Request, status *apierrors.StatusError) (*http.Response, error) {
	status.ErrStatus.Kind, status.ErrStatus.APIVersion = "Status", "v1"
	body, err := json.Marshal(status.ErrStatus)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: int(status.ErrStatus.Code), Proto: "HTTP/2.0", ProtoMajor: 2, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}, nil
}

// withoutHidden removes the hidden group from a discovery document, in either of its two formats.
func (s *Server) withoutHidden(response *http.Response) (*http.Response, error) {
	s.mu.Lock()
	hidden := s.hidden
	s.mu.Unlock()
	if hidden == "" || !strings.Contains(response.Header.Get("Content-Type"), "json") {
		return response, nil
	}
	defer response.Body.Close()
	var document map[string]any
	if err := json.NewDecoder(response.Body).Decode(&document); err != nil {
		return nil, err
	}
	for _, field := range []string{"groups", "items"} {
		groups, _ := document[field].([]any)
		var shown []any
		for _, g := range groups {
			if nameOf(g.(map[string]any)) != hidden {
				shown = append(shown, g)
			}
		}
		if groups != nil {
			document[field] = shown
		}
	}
	body, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	response.Header.Del("Content-Length")
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return response, nil
}

func nameOf(group map[string]any) any {
	if meta, ok := group["metadata"].(map[string]any); ok {
		return meta["name"]
	}
	return group["name"]
}

// Faults loses one of five writes while its result is true: half of them before they arrive, and of the others the
// answer.
func (s *Server) Faults(random *rand.Rand) *atomic.Bool {
	on := new(atomic.Bool)
	var mu sync.Mutex // guards random
	lose := func(r *http.Request) error {
		mu.Lock()
		defer mu.Unlock()
		if on.Load() && r.Method != http.MethodGet && random.IntN(10) == 0 {
			return errLost
		}
		return nil
	}
	s.Intercept(lose, lose)
	return on
}

// stream is the body of a watch, which can be blocked and cut.
type stream struct {
	io.ReadCloser
	server   *Server
	resource string
	cancel   context.CancelFunc
	dropped  bool // guarded by server.mu
}

func (s *Server) watch(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	response, err := s.config.Transport.RoundTrip(r.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	w := &stream{ReadCloser: response.Body, server: s, resource: path.Base(r.URL.Path), cancel: cancel}
	s.mu.Lock()
	s.watches[w] = true
	s.mu.Unlock()
	response.Body = w
	return response, nil
}

// Read returns data while the stream is not blocked.
func (st *stream) Read(p []byte) (int, error) {
	n, err := st.ReadCloser.Read(p)
	s := st.server
	s.mu.Lock()
	defer s.mu.Unlock()
	for (s.held || s.behind == st.resource) && !st.dropped && s.watches[st] {
		s.moved.Wait()
	}
	if st.dropped || !s.watches[st] {
		return 0, io.EOF
	}
	return n, err
}

// Close ends the watch.
func (st *stream) Close() error {
	s := st.server
	s.mu.Lock()
	delete(s.watches, st)
	s.moved.Broadcast()
	s.mu.Unlock()
	st.cancel()
	return st.ReadCloser.Close()
}
