package inprocess_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/millrace/millrace/internal/server/inprocess"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ask(ctx context.Context, t *inprocess.Transport, method, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, "https://in.process/path?query=1", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	return t.RoundTrip(r)
}

func TestRequestsAndAnswersArriveWhole(t *testing.T) {
	type key struct{}
	transport := inprocess.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Said", r.Context().Value(key{}).(string))
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprintf(w, "%s %s %s", r.Method, r.RequestURI, body)
	}), func(ctx context.Context) context.Context { return context.WithValue(ctx, key{}, "administrator") })
	defer transport.Close()
	var all sync.WaitGroup
	for i := range 200 { // more than the idle goroutines that are kept, so that some end and some are reused
		all.Go(func() {
			res, err := ask(t.Context(), transport, http.MethodPost, fmt.Sprint("body ", i))
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			if want := fmt.Sprint("POST /path?query=1 body ", i); err != nil || string(body) != want || res.ContentLength != int64(len(want)) ||
				res.StatusCode != http.StatusTeapot || res.Header.Get("X-Said") != "administrator" {
				t.Errorf("got %d %q %v %v", res.StatusCode, body, res.Header, err)
			}
		})
	}
	all.Wait()
}

func TestWhatIsFlushedIsReadWhileTheHandlerGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		more := make(chan string)
		transport := inprocess.New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for text := range more {
				io.WriteString(w, text)
				w.(http.Flusher).Flush()
			}
		}), nil)
		defer transport.Close()
		go func() { more <- "one" }()
		res, err := ask(t.Context(), transport, http.MethodGet, "")
		if err != nil || res.ContentLength != -1 {
			t.Fatal(res, err)
		}
		buffer := make([]byte, 16)
		for _, want := range []string{"one", "two"} {
			if n, err := res.Body.Read(buffer); err != nil || string(buffer[:n]) != want {
				t.Errorf("read %q, %v", buffer[:n], err)
			}
			if want == "one" {
				more <- "two"
			}
		}
		close(more)
		if _, err := res.Body.Read(buffer); err != io.EOF {
			t.Errorf("the end is %v", err)
		}
	})
}

// blocked serves requests whose handlers wait for their context, and reports its cause.
func blocked(causes chan<- error) *inprocess.Transport {
	return inprocess.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		causes <- context.Cause(r.Context())
	}), nil)
}

func TestTheHandlerEndsWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		causes := make(chan error, 1)
		transport := blocked(causes)
		defer transport.Close()

		res, err := ask(t.Context(), transport, http.MethodGet, "")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		<-causes // fails by timeout if the handler's context does not end

		gone := errors.New("the caller has gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		if _, err = ask(ctx, transport, http.MethodGet, ""); err != nil {
			t.Fatal(err)
		}
		cancel(gone)
		if cause := <-causes; !errors.Is(cause, gone) {
			t.Errorf("the handler ended since %v", cause)
		}
	})
}

func TestACallerWhoseContextEndsIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		transport := inprocess.New(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-end }), nil)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			synctest.Wait()
			cancel()
		}()
		if _, err := ask(ctx, transport, http.MethodGet, ""); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		close(end)
		transport.Close()
	})
}

func TestAWriterWaitsForItsReaderAndNotForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 8 << 20
		written := 0
		transport := inprocess.New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			block := make([]byte, 1<<16)
			for written < size {
				n, err := w.Write(block)
				if written += n; err != nil {
					return
				}
			}
		}), nil)
		res, err := ask(t.Context(), transport, http.MethodGet, "")
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if written == 0 || written > 2<<20 {
			t.Errorf("%d bytes were written ahead", written)
		}
		if n, err := io.Copy(io.Discard, res.Body); n != size || err != nil {
			t.Errorf("read %d bytes, %v", n, err)
		}
		written = 0
		if _, err = ask(t.Context(), transport, http.MethodGet, ""); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		transport.Close() // although nothing reads
		if written >= size {
			t.Error("everything was written although nothing was read")
		}
	})
}

func TestCloseEndsWhatIsServedAndRefusesWhatComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		causes := make(chan error, 1)
		transport := blocked(causes)
		if _, err := ask(t.Context(), transport, http.MethodGet, ""); err != nil {
			t.Fatal(err)
		}
		transport.Close()
		if cause := <-causes; !errors.Is(cause, inprocess.ErrClosed) {
			t.Errorf("the handler ended since %v", cause)
		}
		if _, err := ask(t.Context(), transport, http.MethodGet, ""); !errors.Is(err, inprocess.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

func TestAHandlerThatPanicsEndsItsAnswerOnly(t *testing.T) {
	transport := inprocess.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "half")
		if r.Method == http.MethodPut {
			panic(http.ErrAbortHandler)
		}
	}), nil)
	defer transport.Close()
	for method, want := range map[string]error{http.MethodPut: io.ErrUnexpectedEOF, http.MethodGet: nil} {
		res, err := ask(t.Context(), transport, method, "")
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(res.Body); string(text) != "half" || err != want {
			t.Errorf("%s: %q, %v", method, text, err)
		}
	}
}

func BenchmarkRequest(b *testing.B) {
	answer := make([]byte, 2500)
	transport := inprocess.New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(answer) }), nil)
	defer transport.Close()
	b.ReportAllocs()
	for b.Loop() {
		res, err := ask(b.Context(), transport, http.MethodPost, "")
		if err != nil {
			b.Fatal(err)
		}
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
}

func TestRequestsFailUntilThereIsAHandler(t *testing.T) {
	transport := inprocess.New(nil, nil)
	defer transport.Close()
	if _, err := ask(t.Context(), transport, http.MethodGet, ""); !errors.Is(err, inprocess.ErrNotServing) {
		t.Errorf("%v", err)
	}
	transport.Serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	res, err := ask(t.Context(), transport, http.MethodGet, "")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusTeapot {
		t.Errorf("answered with %d", res.StatusCode)
	}
}
