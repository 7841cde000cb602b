package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/millrace/millrace/internal/assembly"
	"github.com/millrace/millrace/internal/server/apiserver"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/connections"
	"github.com/millrace/millrace/internal/server/page"
)

// withPage returns the handler of the port: the API, and the page if there is one.
func (w *Web) withPage(ctx context.Context, api *apiserver.Server, streams *connections.Connections, l *assembly.List) (http.Handler, error) {
	if !w.o.Page {
		return api, nil
	}
	w.page = page.New(page.Options{API: api})
	if at, err := netip.ParseAddrPort(w.address.Listening); err == nil && at.Addr().IsLoopback() {
		if err := w.servePlain(ctx, at, api, streams, l); err != nil {
			return nil, err
		}
	}
	links := api.Known(w.page.Linked(w.pageURL))
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == page.LinkPath:
			links.ServeHTTP(out, r)
		case page.Asks(r.URL.Path):
			w.page.ServeHTTP(out, r)
		default:
			api.ServeHTTP(out, r)
		}
	}), nil
}

// servePlain serves the page, and nothing else, without TLS on the next port, or on a free one if that is in use: a
// browser does not know the authority that signed the certificate of the other port.
func (w *Web) servePlain(ctx context.Context, at netip.AddrPort, api *apiserver.Server, streams *connections.Connections, l *assembly.List) error {
	listener, err := listenNear(ctx, at)
	if err != nil {
		return fmt.Errorf("a port for the page: %w", err)
	}
	host := listener.Addr().String()
	w.pageURL = "http://" + host
	server := &http.Server{
		Handler: http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			switch {
			case r.Host != host: // another name leads here, which somebody else may have made
				http.Error(out, "the page is at "+w.pageURL+page.Prefix, http.StatusMisdirectedRequest)
			case r.URL.Path == "/":
				http.Redirect(out, r, page.Prefix, http.StatusFound)
			case page.Asks(r.URL.Path) && r.URL.Path != page.LinkPath:
				w.page.ServeHTTP(out, r)
			default:
				http.NotFound(out, r)
			}
		}),
		ReadHeaderTimeout: 30 * time.Second, IdleTimeout: 3 * time.Minute, MaxHeaderBytes: 1 << 16,
		ErrorLog: slog.NewLogLogger(w.o.Logger.Handler(), slog.LevelDebug),
	}
	stop := func() {
		endStreams(api, streams)
		ctx, cancel := context.WithTimeout(context.Background(), graceToClose)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			server.Close()
		}
	}
	l.Until("page", stop, func(context.Context) error { return server.Serve(listener) })
	return nil
}

// listenNear opens the port after one, or a free port of the same address.
func listenNear(ctx context.Context, at netip.AddrPort) (net.Listener, error) {
	var listen net.ListenConfig
	host := at.Addr().String()
	if at.Port() < 1<<16-1 {
		if l, err := listen.Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(int(at.Port())+1))); err == nil {
			return l, nil
		}
	}
	return listen.Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
}

// PageLink makes a link to the page, which shows it once as a user.
func (w *Web) PageLink(u auth.User) (string, error) {
	if w.page == nil {
		return "", errors.New("this cluster serves no page")
	}
	code, _, err := w.page.Link(u)
	if err != nil {
		return "", err
	}
	if w.pageURL != "" {
		return page.Link(w.pageURL, code), nil
	}
	return page.Link(w.address.URL(), code), nil
}
