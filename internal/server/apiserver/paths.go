package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/pprof"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace/millrace/internal/server/apiserver/internal/answer"
	"github.com/millrace/millrace/internal/server/apiserver/internal/status"
	"github.com/millrace/millrace/internal/server/resource"
)

// Check is one health check.
type Check struct {
	Name string
	// Live includes the check in /livez; otherwise it is only part of /readyz and /healthz.
	Live bool
	// ReadyOnly leaves the check out of /healthz.
	ReadyOnly bool
	// Quiet leaves failures out of the log: somebody wants them, and has said so.
	Quiet bool
	Do    func(context.Context) error
	// Notes returns lines for the report that do not make the check fail; nil if there are none.
	Notes func() []string
}

// at reports whether the check is one of /livez, /readyz or /healthz.
func (c *Check) at(point string) bool {
	return (point != "livez" || c.Live) && (point != "healthz" || !c.ReadyOnly)
}

// servePath answers requests that are not for a resource.
func (s *Server) servePath(w http.ResponseWriter, r *http.Request) {
	path := strings.Trim(r.URL.Path, "/")
	parts := strings.Split(path, "/")
	if parts[0] == "apis" || parts[0] == "openapi" {
		_ = wait(r.Context(), s.o.CatchUp) // if it fails, the known paths are shown
	}
	if h := s.extra(r.URL.Path); h != nil {
		h.ServeHTTP(w, r)
		return
	}
	switch parts[0] {
	case "":
		s.sendPaths(w, r)
	case "api", "apis":
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			s.fail(w, r, status.MethodNotAllowed())
			return
		}
		s.failed(w, r, s.discovery.Serve(w, r, parts))
	case "version":
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			s.fail(w, r, status.MethodNotAllowed())
			return
		}
		s.failed(w, r, answer.SendDocument(w, r, s.o.Version, true))
	case "healthz", "livez", "readyz":
		s.serveHealth(w, r, parts)
	case "debug":
		if s.o.NoProfiling {
			http.NotFound(w, r)
			return
		}
		servePprof(w, r, parts)
	default:
		http.NotFound(w, r)
	}
}

// extra returns the handler of a path, or of the longest prefix that ends in a slash.
func (s *Server) extra(path string) http.Handler {
	if h, ok := s.o.Extra[path]; ok {
		return h
	}
	for p := path; p != ""; {
		p = p[:max(0, strings.LastIndexByte(p, '/'))] // "GET *" has no slash at all
		if h, ok := s.o.Extra[p+"/"]; ok {
			return h
		}
	}
	return nil
}

// sendPaths lists the server's paths as JSON, whatever the client accepts.
func (s *Server) sendPaths(w http.ResponseWriter, r *http.Request) {
	b, err := json.MarshalIndent(map[string][]string{"paths": s.paths()}, "", "  ")
	if err != nil {
		s.fail(w, r, err)
		return
	}
	answer.WriteBytes(w, resource.JSONType, http.StatusOK, b)
}

func (s *Server) paths() []string {
	out := []string{"/api", "/api/v1", "/apis", "/apis/", "/healthz", "/livez", "/readyz", "/version"}
	for _, point := range []string{"healthz", "livez", "readyz"} {
		out = append(out, "/"+point+"/ping")
		for i := range s.o.Checks {
			if c := &s.o.Checks[i]; c.at(point) {
				out = append(out, "/"+point+"/"+c.Name)
			}
		}
	}
	for _, g := range s.discovery.Groups() {
		out = append(out, "/apis/"+g.Name)
		for _, v := range g.Versions {
			out = append(out, "/apis/"+v.GroupVersion)
		}
	}
	out = slices.AppendSeq(out, maps.Keys(s.o.Extra))
	slices.Sort(out)
	return slices.Compact(out)
}

// serveHealth runs the health checks: all of them, one by its name, or all that are not excluded.
func (s *Server) serveHealth(w http.ResponseWriter, r *http.Request, parts []string) {
	q := r.URL.Query()
	excluded := q["exclude"]
	single := strings.Join(parts[1:], "/")
	var report bytes.Buffer
	healthy, found := true, single == "" || single == "ping"
	unknown := slices.DeleteFunc(slices.Clone(excluded), func(name string) bool {
		return name == "ping" || slices.ContainsFunc(s.o.Checks, func(c Check) bool { return c.Name == name })
	})
	fmt.Fprintln(&report, "[+]ping ok")
	for _, c := range s.o.Checks {
		switch {
		case !c.at(parts[0]), single != "" && c.Name != single:
			continue
		case slices.Contains(excluded, c.Name):
			fmt.Fprintf(&report, "[+]%s excluded: ok\n", c.Name)
			continue
		}
		found = true
		if err := c.Do(r.Context()); err != nil {
			healthy = false
			if !c.Quiet {
				s.log.Warn("health check failed", "check", c.Name, "error", err)
			}
			fmt.Fprintf(&report, "[-]%s failed: reason withheld\n", c.Name)
			continue
		}
		fmt.Fprintf(&report, "[+]%s ok\n", c.Name)
		if c.Notes != nil {
			for _, note := range c.Notes() {
				fmt.Fprintf(&report, "warn: %s\n", note)
			}
		}
	}
	if len(unknown) > 0 {
		fmt.Fprintf(&report, "warn: some health checks cannot be excluded: no matches for %s\n", quoted(unknown))
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch {
	case !found:
		http.NotFound(w, r)
	case !healthy:
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, "%s%s check failed\n", report.String(), parts[0])
	case q.Has("verbose"):
		fmt.Fprintf(w, "%s%s check passed\n", report.String(), parts[0])
	default:
		fmt.Fprint(w, "ok")
	}
}

// quoted writes names as kube-apiserver does: in quotes, divided by commas.
func quoted(names []string) string {
	slices.Sort(names)
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = strconv.Quote(name)
	}
	return strings.Join(out, ",")
}

func servePprof(w http.ResponseWriter, r *http.Request, parts []string) {
	if len(parts) < 2 || parts[1] != "pprof" {
		http.NotFound(w, r)
		return
	}
	name := ""
	if len(parts) > 2 {
		name = parts[2]
	}
	switch name {
	case "cmdline":
		pprof.Cmdline(w, r)
	case "profile":
		pprof.Profile(w, r)
	case "symbol":
		pprof.Symbol(w, r)
	case "trace":
		pprof.Trace(w, r)
	default:
		pprof.Index(w, r)
	}
}
