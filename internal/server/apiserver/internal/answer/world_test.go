package answer_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/millrace/millrace/internal/server/apiserver/internal/answer"
	"github.com/millrace/millrace/internal/server/apiserver/internal/negotiate"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/core"
	"github.com/millrace/millrace/internal/server/store/memory"
	"github.com/millrace/millrace/internal/server/watchcache"
)

// Accept headers.
const (
	asJSON     = "application/json"
	asYAML     = "application/yaml"
	asProtobuf = "application/vnd.kubernetes.protobuf"
	asTable    = "application/json;as=Table;v=v1;g=meta.k8s.io"
	asPartial  = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
	asPartials = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
)

// world is a registry with one kind.
type world struct {
	t       *testing.T
	kind    *resource.Kind
	storage *registry.Storage
}

func newWorld(t *testing.T) *world {
	t.Helper()
	kind := core.ConfigMaps()
	catalogue, err := resource.NewCatalogue(kind)
	if err != nil {
		t.Fatal(err)
	}
	s := memory.New(memory.Options{})
	cache := watchcache.New(s, watchcache.Options{})
	reg, err := registry.New(registry.Options{Store: s, Cache: cache, Catalogue: catalogue})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = cache.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		s.Close()
	})
	if err := cache.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	storage, err := reg.Storage(kind)
	if err != nil {
		t.Fatal(err)
	}
	return &world{t, kind, storage}
}

// create creates config maps of a given size.
func (w *world) create(count, size int) *registry.Stored {
	w.t.Helper()
	var last *registry.Stored
	for i := range count {
		o := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m%03d", i), Namespace: "default", Annotations: map[string]string{"text": "<a&b>"}},
			Data:       map[string]string{"k": fmt.Sprintf("%0*d", size, i)},
		}
		var err error
		if last, err = w.storage.Create(w.t.Context(), "default", o, registry.WriteOptions{}); err != nil {
			w.t.Fatal(err)
		}
	}
	return last
}

func (w *world) list(limit int) *registry.List {
	w.t.Helper()
	l, err := w.storage.List(w.t.Context(), registry.ListQuery{Selection: registry.Select(w.kind.Faces[0], "default", "", nil, nil), Limit: limit})
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

// asked returns the answer to a GET with these Accept and Accept-Encoding headers.
func (w *world) asked(accept, encoding string) (*answer.Answer, *httptest.ResponseRecorder) {
	w.t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Accept", accept)
	r.Header.Set("Accept-Encoding", encoding)
	f, err := negotiate.Choose(r, negotiate.Offer{})
	if err != nil {
		w.t.Fatal(err)
	}
	out := httptest.NewRecorder()
	return &answer.Answer{
		Within: w.t.Context(), Writer: &answer.Response{ResponseWriter: out}, Request: r, Face: w.kind.Faces[0], Kind: w.kind,
		Format: f, Log: slog.New(slog.DiscardHandler),
	}, out
}

// read decodes a body of any format to a tree.
func read(t *testing.T, out *httptest.ResponseRecorder, proto runtime.Object) map[string]any {
	t.Helper()
	var body io.Reader = out.Body
	if out.Header().Get("Content-Encoding") == "gzip" {
		var err error
		if body, err = gzip.NewReader(out.Body); err != nil {
			t.Fatal(err)
		}
	}
	b, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	switch out.Header().Get("Content-Type") {
	case asYAML:
		b, err = yaml.YAMLToJSON(b)
	case asProtobuf:
		b, err = protoToJSON(b, proto)
	}
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	return v
}

// protoToJSON decodes the envelope and the message in it.
func protoToJSON(b []byte, into runtime.Object) ([]byte, error) {
	var u runtime.Unknown
	if err := u.Unmarshal(b[4:]); err != nil {
		return nil, err
	}
	if err := into.(interface{ Unmarshal([]byte) error }).Unmarshal(u.Raw); err != nil {
		return nil, err
	}
	into.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(u.APIVersion, u.Kind))
	return json.Marshal(into)
}
