package openapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v3 "github.com/google/gnostic-models/openapiv3"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/server/resource"
)

func ask(d *Documents, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	handlers := d.Handlers()
	at, _, _ := strings.Cut(path, "?")
	h := handlers[at]
	if h == nil {
		h = handlers["/openapi/v3/"]
	}
	h.ServeHTTP(w, r)
	return w
}

func TestIndexLinksToDocumentsThatCanBeCachedForEver(t *testing.T) {
	d := documents(t)
	var list index
	if err := json.Unmarshal(ask(d, "/openapi/v3").Body.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	if _, ok := list.Paths["api/v1"]; !ok || len(list.Paths) < 10 {
		t.Fatalf("index has %d entries", len(list.Paths))
	}
	w := ask(d, list.Paths["apis/apps/v1"].URL)
	if w.Code != http.StatusOK || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") || !json.Valid(w.Body.Bytes()) {
		t.Fatalf("answer %d %v", w.Code, w.Header())
	}
	tag := w.Header().Get("Etag")
	if w := ask(d, "/openapi/v3/apis/apps/v1", "If-None-Match", tag); w.Code != http.StatusNotModified || w.Body.Len() != 0 {
		t.Errorf("known tag: got %d with %d bytes", w.Code, w.Body.Len())
	}
	if w := ask(d, "/openapi/v3/apis/apps/v1?hash=OLD"); w.Code != http.StatusMovedPermanently || w.Header().Get("Location") != list.Paths["apis/apps/v1"].URL {
		t.Errorf("old hash: got %d to %s", w.Code, w.Header().Get("Location"))
	}
}

func TestDocumentsComeInTheRequestedForm(t *testing.T) {
	d := documents(t)
	const older, newer = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf", "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
	for _, c := range []struct {
		accept, want string
		code         int
	}{
		{"", "application/json", 200},
		{"*/*", "application/json", 200},
		{older, newer, 200},
		{newer, newer, 200},
		{"application/json;q=0.5, " + newer, newer, 200},
		{"text/html", "", 406},
		{"application/json;q=0", "", 406},
	} {
		w := ask(d, "/openapi/v3/apis/policy/v1", "Accept", c.accept)
		if w.Code != c.code || w.Header().Get("Content-Type") != c.want {
			t.Errorf("%q: got %d %q", c.accept, w.Code, w.Header().Get("Content-Type"))
		}
	}
	if w := ask(d, "/openapi/v3/apis/policy/v1", "Accept-Encoding", "gzip"); w.Header().Get("Content-Encoding") != "gzip" || w.Body.Bytes()[0] != 0x1f {
		t.Error("gzip was not used")
	}
	if w := ask(d, "/openapi/v3/apis/policy/v1", "Accept-Encoding", "gzip;q=0"); w.Header().Get("Content-Encoding") != "" {
		t.Error("gzip was used although it was refused")
	}
	if w := ask(d, "/openapi/v3/apis/nowhere/v1"); w.Code != http.StatusNotFound {
		t.Errorf("a group that is not there: got %d", w.Code)
	}
	if w := ask(d, "/openapi/v2"); w.Code != http.StatusOK || !json.Valid(w.Body.Bytes()) {
		t.Errorf("version 2: got %d", w.Code)
	}
}

func TestUnusedTextsAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := documents(t)
		kept := func() bool {
			d.mu.Lock()
			defer d.mu.Unlock()
			return len(d.entries["apis/policy/v1"].text) > 0
		}
		ask(d, "/openapi/v3/apis/policy/v1")
		time.Sleep(d.o.Keep - time.Second)
		ask(d, "/openapi/v3/apis/policy/v1")
		time.Sleep(d.o.Keep - time.Second)
		if !kept() {
			t.Fatal("text was dropped while it was in use")
		}
		time.Sleep(2 * d.o.Keep)
		if kept() {
			t.Fatal("text is still kept")
		}
		d.Close()
	})
}

func TestTheIndexIsReadWhileKindsComeAndGo(t *testing.T) {
	d := documents(t)
	tabs := resource.Define(resource.Description[*corev1.ConfigMap]{Group: "stable.example.com", Version: "v1", Kind: "CronTab", Resource: "crontabs"})
	var changes sync.WaitGroup
	done := make(chan struct{})
	changes.Go(func() {
		for {
			for _, kinds := range [][]*resource.Kind{{tabs}, nil} {
				if err := d.o.Catalogue.Exchange(tabs.GroupResource(), kinds...); err != nil {
					t.Error(err)
				}
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	for range 300 {
		if w := ask(d, "/openapi/v3"); w.Code != http.StatusOK {
			t.Fatalf("got %d: %s", w.Code, w.Body)
		}
	}
	close(done)
	changes.Wait()
}

func TestAddedKindsHaveTheirOwnSchema(t *testing.T) {
	d := documents(t)
	before := ask(d, "/openapi/v3").Body.String()
	// The Go type does not matter, because the kind has its own schema.
	tabs := resource.Define(resource.Description[*corev1.ConfigMap]{
		Group: "stable.example.com", Version: "v1", Kind: "CronTab", Resource: "crontabs", Namespaced: true,
	})
	tabs.Custom = true
	d.o.Schema = func(f *resource.Face) *Schema {
		if f.Of != tabs {
			return nil
		}
		return &Schema{Type: "object", Properties: []Property{{Name: "cron", Schema: Schema{Type: "string"}}}}
	}
	if err := d.o.Catalogue.Exchange(tabs.GroupResource(), tabs); err != nil {
		t.Fatal(err)
	}
	var then, now index
	if err := json.Unmarshal([]byte(before), &then); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(ask(d, "/openapi/v3").Body.Bytes(), &now); err != nil {
		t.Fatal(err)
	}
	if now.Paths["api/v1"] != then.Paths["api/v1"] {
		t.Error("a new group changed the document of another one")
	}
	doc, err := v3.ParseDocument(ask(d, now.Paths["apis/stable.example.com/v1"].URL).Body.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	properties := map[string][]string{}
	for _, s := range doc.GetComponents().GetSchemas().GetAdditionalProperties() {
		for _, p := range s.GetValue().GetSchema().GetProperties().GetAdditionalProperties() {
			properties[s.Name] = append(properties[s.Name], p.Name)
		}
	}
	if got := strings.Join(properties["com.example.stable.v1.CronTab"], " "); got != "apiVersion cron kind metadata" {
		t.Errorf("properties: %s", got)
	}
	if got := strings.Join(properties["com.example.stable.v1.CronTabList"], " "); got != "apiVersion items kind metadata" {
		t.Errorf("properties of the list: %s", got)
	}
	if err := d.o.Catalogue.Exchange(tabs.GroupResource()); err != nil {
		t.Fatal(err)
	}
	if ask(d, "/openapi/v3").Body.String() != before {
		t.Error("the index still contains a kind that was removed")
	}
}
