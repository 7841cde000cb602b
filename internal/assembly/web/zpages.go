package web

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/features"
)

// Pages about the server itself, for people. Kubernetes names their formats unstable, and so do we.
const (
	statusPage = "/statusz"
	flagsPage  = "/flagz"
	pageType   = "text/plain; charset=utf-8"
	forPeople  = "Warning: this page is for people. Its format may change at any time."
)

// pages are the handlers of the pages.
func (w *Web) pages(started time.Time) map[string]http.Handler {
	all := map[string]http.Handler{}
	if w.o.Features.Enabled(features.StatusPage) {
		all[statusPage] = text(func() string { return w.status(started) })
	}
	if w.hasFlags() {
		all[flagsPage] = text(w.flags)
	}
	return all
}

func text(write func() string) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			out.Header().Set("Allow", "GET, HEAD")
			http.Error(out, "only GET is possible here", http.StatusMethodNotAllowed)
			return
		}
		out.Header().Set("Content-Type", pageType)
		out.Header().Set("X-Content-Type-Options", "nosniff")
		fmt.Fprint(out, write())
	})
}

func (w *Web) status(started time.Time) string {
	v, up := w.o.Version, time.Since(started)
	paths := []string{statusPage, "/healthz", "/livez", "/metrics", "/readyz", "/version"}
	if w.hasFlags() {
		paths = append(paths, flagsPage)
	}
	slices.Sort(paths)
	return fmt.Sprintf("\napiserver statusz\n%s\n\nStarted= %s\nUp= %d hr %02d min %02d sec\nGo version= %s\nBinary version= %s\n"+
		"Emulation version= %s.%s\nPaths= %s\n",
		forPeople, started.UTC().Format(time.UnixDate), int(up.Hours()), int(up.Minutes())%60, int(up.Seconds())%60,
		v.GoVersion, strings.TrimPrefix(v.GitVersion, "v"), v.Major, v.Minor, strings.Join(paths, " "))
}

func (w *Web) hasFlags() bool { return w.o.Flags != nil && w.o.Features.Enabled(features.FlagsPage) }

func (w *Web) flags() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\napiserver flagz\n%s\n\n", forPeople)
	for _, name := range slices.Sorted(maps.Keys(w.o.Flags)) {
		fmt.Fprintf(&b, "%s= %s\n", name, w.o.Flags[name])
	}
	return b.String()
}
