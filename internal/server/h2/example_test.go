package h2_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/millrace/millrace/internal/server/h2"
)

func Example() {
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "hello over %s", r.Proto)
	}))
	web.TLS = &tls.Config{NextProtos: []string{"h2", "http/1.1"}}
	server := h2.New(h2.Options{})
	server.Serve(web.Config) // before the http.Server serves
	web.StartTLS()
	defer web.Close()

	client := web.Client()
	client.Transport.(*http.Transport).ForceAttemptHTTP2 = true
	answer, err := client.Get(web.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	fmt.Println(string(text), err)

	// The http.Server knows only that these connections exist, not what happens on them.
	client.CloseIdleConnections()
	fmt.Println(web.Config.Shutdown(context.Background()))
	server.Wait()
	// Output:
	// hello over HTTP/2.0 <nil>
	// <nil>
}
