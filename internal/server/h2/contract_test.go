package h2

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/http/httputil"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// contracts are handlers whose clients must see the same from this package and from net/http.
var contracts = map[string]http.HandlerFunc{
	"type of what is written after the status": func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, "<ht")
		io.WriteString(w, "ml>")
	},
	"type of what is encoded": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		io.WriteString(w, "x")
	},
	"no type":                  func(w http.ResponseWriter, r *http.Request) { w.Header()["Content-Type"] = nil; io.WriteString(w, "x") },
	"no date":                  func(w http.ResponseWriter, r *http.Request) { w.Header()["Date"] = nil },
	"status twice":             func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(201); w.WriteHeader(500) },
	"header after the status":  func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(201); w.Header().Set("X", "y") },
	"length of several writes": func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "a"); io.WriteString(w, "b") },
	"declared": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "2")
		io.WriteString(w, "ab")
	},
	"declared wrongly": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "-2")
		io.WriteString(w, "ab")
	},
	"declared, and had nothing": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "2")
		w.WriteHeader(304)
	},
	"nothing to modify": func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(304)
		_, err := io.WriteString(w, "x")
		note(w, r, errors.Is(err, http.ErrBodyNotAllowed))
	},
	"empty write": func(w http.ResponseWriter, r *http.Request) { w.Write(nil) },
	"flush":       func(w http.ResponseWriter, r *http.Request) { w.(http.Flusher).Flush(); io.WriteString(w, "<html>") },
	"long":        func(w http.ResponseWriter, r *http.Request) { w.Write(make([]byte, 3*maxBuffered)) },
	"panic":       func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "x"); panic(http.ErrAbortHandler) },
	"panic in a long one": func(w http.ResponseWriter, r *http.Request) {
		w.Write(make([]byte, 3*maxBuffered))
		panic(http.ErrAbortHandler)
	},
	"everyone else": func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Method, r.RequestURI, r.URL, r.Host, r.Header["Te"])
	},
	"last": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		io.WriteString(w, "the last one")
	},
	"trailers": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Sum, Content-Length")
		io.WriteString(w, "body")
		w.Header().Set("Sum", "1")
		w.Header().Set(http.TrailerPrefix+"Late", "2")
	},
	"announced for nothing": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Sum")
		io.WriteString(w, "body")
	},
	"hints": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</a>")
		w.Header().Set("Content-Length", "1")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusProcessing)
		io.WriteString(w, "x")
	},
	"body": func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		_, again := r.Body.Read(make([]byte, 1))
		fmt.Fprint(w, len(b), err, again, r.Trailer, r.ContentLength)
	},
	"body that is closed": func(w http.ResponseWriter, r *http.Request) {
		r.Body.Close()
		_, err := r.Body.Read(make([]byte, 1))
		fmt.Fprint(w, err == nil)
	},
	"body too large": func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 10))
		fmt.Fprint(w, err)
	},
	"both at once": func(w http.ResponseWriter, r *http.Request) {
		note(w, r, http.NewResponseController(w).EnableFullDuplex())
		io.Copy(w, r.Body)
	},
	"in time": func(w http.ResponseWriter, r *http.Request) {
		http.TimeoutHandler(http.HandlerFunc(echo), time.Minute, "late").ServeHTTP(w, r)
	},
	"too late": func(w http.ResponseWriter, r *http.Request) {
		http.TimeoutHandler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), time.Millisecond, "late").ServeHTTP(w, r)
	},
	"taken over": func(w http.ResponseWriter, r *http.Request) {
		_, _, err := http.NewResponseController(w).Hijack()
		fmt.Fprint(w, err)
	},
	"past deadlines": func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).SetReadDeadline(time.Now().Add(-time.Second))
		io.WriteString(w, "answered all the same")
	},
	"proxy": func(w http.ResponseWriter, r *http.Request) {
		back := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "Sum")
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Set("Connection", "keep-alive")
			b, _ := io.ReadAll(r.Body)
			fmt.Fprint(w, r.Method, r.Proto, len(b), r.Trailer, r.Header["Cookie"])
			w.(http.Flusher).Flush()
			w.Header().Set("Sum", "1")
			w.Header().Set(http.TrailerPrefix+"Late", "2")
		}))
		defer back.Close()
		to, _ := url.Parse(back.URL)
		(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(to) }, FlushInterval: -1}).ServeHTTP(w, r)
	},
}

// note sends the client what its handler saw.
func note(w http.ResponseWriter, r *http.Request, what ...any) {
	w.Header().Set("Noted", fmt.Sprint(what...))
}

// seen returns what a client sees.
func seen(t *testing.T, c *http.Client, method, address string, body []byte) string {
	var hints []string
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		hints = append(hints, fmt.Sprint(code, h))
		return nil
	}})
	var in io.Reader
	if body != nil {
		in = bytes.NewReader(body)
	}
	r, err := http.NewRequestWithContext(ctx, method, address, in)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "example.com"
	r.Header["Cookie"] = []string{"a=b; c=d", "e=f"}
	r.Header.Set("Te", "trailers")
	if body != nil {
		r.Trailer = http.Header{"Sum": {"7"}}
		r.ContentLength = -1
	}
	answer, err := c.Do(r)
	if err != nil {
		t.Logf("%s %s: %v", method, address, err)
		return "an error"
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if answer.Header.Get("Date") != "" {
		answer.Header.Set("Date", "httpDate")
	}
	if len(b) > 1000 {
		b = fmt.Append(nil, len(b), " bytes")
	}
	return fmt.Sprint(answer.Proto, answer.StatusCode, answer.ContentLength, sorted(answer.Header), hints, string(b), err != nil, sorted(answer.Trailer))
}

func sorted(h http.Header) (all []string) {
	for _, key := range slices.Sorted(maps.Keys(h)) {
		all = append(all, key+"="+strings.Join(h[key], "|"))
	}
	return all
}

func TestClientsSeeTheSameAsFromNetHTTP(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		name, _ := url.PathUnescape(strings.TrimPrefix(r.URL.Path, "/"))
		contracts[name](w, r)
	}
	ours := serve(t, Options{}, handler)
	theirs := httptest.NewUnstartedServer(http.HandlerFunc(handler))
	theirs.EnableHTTP2 = true
	theirs.Config.ErrorLog = log.New(io.Discard, "", 0)
	theirs.StartTLS()
	defer theirs.Close()
	us, them := ours.client(), theirs.Client()
	them.Transport.(*http.Transport).TLSClientConfig.ServerName = "example.com"
	us.Transport.(*http.Transport).TLSClientConfig = them.Transport.(*http.Transport).TLSClientConfig.Clone()
	us.Transport.(*http.Transport).TLSClientConfig.InsecureSkipVerify = true
	for _, name := range slices.Sorted(maps.Keys(contracts)) {
		for _, method := range []string{"GET", "HEAD", "POST"} {
			var body []byte
			if method == "POST" {
				body = make([]byte, 100)
			}
			if method == "HEAD" && strings.Contains(name, "long") {
				continue // net/http sets the length of short answers only
			}
			path := "/" + url.PathEscape(name)
			got, want := seen(t, us, method, ours.web.URL+path, body), seen(t, them, method, theirs.URL+path, body)
			if got != want {
				t.Errorf("%s %s\ngot  %s\nwant %s", method, name, got, want)
			}
		}
	}
}

func TestRequestHasTheFieldsThatHandlersUse(t *testing.T) {
	ended := make(chan context.Context, 1)
	w := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		ended <- r.Context()
		var state *tls.ConnectionState = r.TLS
		fmt.Fprint(w, r.Context().Value(http.ServerContextKey) != nil, r.Context().Value(http.LocalAddrContextKey) != nil, state.NegotiatedProtocol+" ", r.Context().Err())
	})
	if _, b := w.do(w.client(), "GET", "/", nil); string(b) != "true trueh2 <nil>" {
		t.Errorf("got %s", b)
	}
	<-(<-ended).Done() // ends with the handler
}
