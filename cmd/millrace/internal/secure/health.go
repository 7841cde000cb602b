package secure

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// health serves some checks, or a single one by its path.
type health struct {
	name   string
	checks []Check
}

// ServeHTTP implements http.Handler.
func (h health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-cache, no-store, must-revalidate")
	if one := r.PathValue("check"); one != "" {
		h.one(w, r, one)
		return
	}
	excluded := map[string]bool{}
	for _, list := range r.URL.Query()["exclude"] {
		for name := range strings.SplitSeq(list, ",") {
			excluded[name] = true
		}
	}
	var told strings.Builder
	failed := false
	fmt.Fprintf(&told, "[+]ping ok\n")
	for _, c := range h.checks {
		switch err := c.Do(r); {
		case excluded[c.Name]:
			fmt.Fprintf(&told, "[+]%s excluded: ok\n", c.Name)
		case err != nil:
			failed = true
			fmt.Fprintf(&told, "[-]%s failed: reason withheld\n", c.Name)
		default:
			fmt.Fprintf(&told, "[+]%s ok\n", c.Name)
		}
	}
	switch {
	case failed:
		http.Error(w, fmt.Sprintf("%s%s check failed", told.String(), h.name), http.StatusInternalServerError)
	case r.URL.Query().Has("verbose"):
		fmt.Fprintf(w, "%s%s check passed\n", told.String(), h.name)
	default:
		fmt.Fprint(w, "ok")
	}
}

func (h health) one(w http.ResponseWriter, r *http.Request, name string) {
	if name == "ping" {
		fmt.Fprint(w, "ok")
		return
	}
	for _, c := range h.checks {
		if c.Name != name {
			continue
		}
		if err := c.Do(r); err != nil {
			http.Error(w, fmt.Sprintf("internal server error: %v", err), http.StatusInternalServerError)
			return
		}
		fmt.Fprint(w, "ok")
		return
	}
	http.NotFound(w, r)
}

func configuration(of func() map[string]any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		text, err := json.Marshal(of())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(text) // an error means that the client has disconnected
	})
}
