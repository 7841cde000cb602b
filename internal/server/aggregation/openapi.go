package aggregation

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/millrace/millrace/internal/server/auth"
)

// documentID is the name that the index of OpenAPI version 3 has for a group version.
func documentID(gv schema.GroupVersion) string { return "apis/" + gv.String() }

// Documents are where the documents of other servers are, by their names. A server says so when it is checked.
func (a *Aggregator) Documents() map[string]string {
	s := a.now.Load()
	a.mu.Lock()
	defer a.mu.Unlock()
	out := maps.Clone(a.documents)
	for id := range out {
		if gv, ok := groupVersionOf(id); !ok || !s.available[gv] {
			delete(out, id)
		}
	}
	return out
}

// Document answers with a document of another server; nil says that it is none of them.
func (a *Aggregator) Document(id string) http.Handler {
	gv, ok := groupVersionOf(id)
	if !ok {
		return nil
	}
	h := a.Handler(gv)
	if h == nil {
		return nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		h.ServeHTTP(w, q.WithContext(auth.WithUser(q.Context(), itself)))
	})
}

func groupVersionOf(id string) (schema.GroupVersion, bool) {
	rest, ok := strings.CutPrefix(id, "apis/")
	if !ok {
		return schema.GroupVersion{}, false
	}
	gv, err := schema.ParseGroupVersion(rest)
	return gv, err == nil && gv.Group != ""
}

// learnDocument asks a server where it describes a group version. One that does not is still a good server.
func (a *Aggregator) learnDocument(ctx context.Context, s *v1.APIService, c *connections) {
	id := documentID(groupVersion(s))
	at, err := a.documentOf(ctx, s, c, id)
	if err != nil {
		a.log.Debug("an API service does not describe itself", "name", s.Name, "error", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if at == "" {
		delete(a.documents, id)
		return
	}
	a.documents[id] = at
}

func (a *Aggregator) documentOf(ctx context.Context, s *v1.APIService, c *connections, id string) (string, error) {
	answer, err := a.get(ctx, s, c, "/openapi/v3")
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %d", answer.StatusCode)
	}
	var index struct {
		Paths map[string]struct {
			URL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, mostDiscovery)).Decode(&index); err != nil {
		return "", err
	}
	at, err := url.Parse(index.Paths[id].URL)
	if err != nil || at.IsAbs() || at.Path != "/openapi/v3/"+id {
		return "", err // another path would not come back to that server
	}
	return at.String(), nil
}
