package h2

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// FuzzFrames sends arbitrary bytes: whatever they are, the connection ends, and so do its handlers.
func FuzzFrames(f *testing.F) {
	say := func(do func(b *bare)) {
		var all bytes.Buffer
		b := newBare(nil, nil)
		b.Framer = http2.NewFramer(&all, nil)
		do(b)
		f.Add(all.Bytes())
	}
	say(func(b *bare) { b.WriteSettings() })
	say(func(b *bare) {
		b.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}, http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0})
		b.WriteWindowUpdate(0, 1000)
		b.WritePing(false, [8]byte{})
	})
	f.Add([]byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00" + // settings
		"\x00\x00\x0e\x01\x04\x00\x00\x00\x01\x83\x87\x84\x41\x0aexampl.com" + // a request
		"\x00\x00\x04\x00\x01\x00\x00\x00\x01body" +
		"\x00\x00\x04\x08\x00\x00\x00\x00\x01\x00\x00\x00\x0a" +
		"\x00\x00\x04\x03\x00\x00\x00\x00\x01\x00\x00\x00\x08"))
	server := New(Options{WriteTimeout: 50 * time.Millisecond})
	f.Cleanup(server.Close)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(w, r.Body)
		w.(http.Flusher).Flush()
		io.WriteString(w, r.URL.Path)
	})
	f.Fuzz(func(t *testing.T, said []byte) {
		a := &pipeServer{t: t, server: server, handler: handler.ServeHTTP}
		secure := a.dial()
		a.serving.Go(func() { io.Copy(io.Discard, secure) })
		secure.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := secure.Write(append([]byte(http2.ClientPreface), said...)); err == nil {
			secure.CloseWrite()
		}
		ended := make(chan struct{})
		go func() { defer close(ended); a.serving.Wait() }()
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			t.Fatal("the connection goes on")
		}
	})
}
