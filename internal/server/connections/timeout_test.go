package connections

import (
	"context"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

func TestAKubeletThatDoesNotAnswerIsGivenUpAfterTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe() // nobody reads
		defer far.Close()
		c := New(Options{Timeout: 3 * time.Second, Dial: func(context.Context, string, string) (net.Conn, error) { return near, nil }})
		defer c.Close()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://192.0.2.1:10250/", nil)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := c.kubelet.RoundTrip(r); err == nil || time.Since(began) != 3*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}
