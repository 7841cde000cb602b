package openapi

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	v2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
)

// wardle is what another server says of itself: a path with a parameter that others share, a path of the core group
// that is none of its business, a schema that has the name of one of ours and says something else, and one that nothing
// refers to.
const wardle = `{
 "swagger": "2.0", "info": {"title": "wardle", "version": "v1"},
 "paths": {
  "/api/v1/pods": {"get": {"operationId": "stolen", "responses": {"200": {"description": "OK"}}}},
  "/apis/wardle.example/v1/flunders": {
   "get": {"operationId": "listFlunders", "responses": {"200": {"description": "OK", "schema": {"$ref": "#/definitions/example.wardle.v1.Flunder"}}}},
   "parameters": [{"$ref": "#/parameters/pretty-1"}]
  },
  "/apis/wardle.example.org/v1/others": {"get": {"operationId": "others", "responses": {"200": {"description": "OK"}}}}
 },
 "definitions": {
  "example.wardle.v1.Flunder": {"type": "object", "properties": {
   "metadata": {"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}, "next": {"$ref": "#/definitions/example.wardle.v1.Flunder"}}},
  "example.wardle.v1.Unused": {"type": "object"},
  "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": {"type": "object", "description": "older", "properties": {"name": {"type": "string"}}}
 },
 "parameters": {"pretty-1": {"name": "pretty", "in": "query", "type": "string", "uniqueItems": true}}
}`

func withForeign(t *testing.T, all *[]Foreign) *Documents {
	t.Helper()
	d := documents(t)
	d.o.Foreign = func(context.Context) []Foreign { return *all }
	return d
}

func TestVersion2ShowsWhatOtherServersHave(t *testing.T) {
	var all []Foreign
	d := withForeign(t, &all)
	before := ask(d, "/openapi/v2").Header().Get("Etag")
	all = []Foreign{{Group: "wardle.example", Tag: "1", Text: []byte(wardle)}}
	w := ask(d, "/openapi/v2")
	if w.Code != http.StatusOK || w.Header().Get("Etag") == before {
		t.Fatalf("answer %d with the tag %s", w.Code, w.Header().Get("Etag"))
	}
	var got struct {
		Paths       map[string]any
		Definitions map[string]any
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	text := func(v any) string { return string(encoded(v)) }
	if p := text(got.Paths["/apis/wardle.example/v1/flunders"]); !strings.Contains(p, `"#/definitions/example.wardle.v1.Flunder"`) || !strings.Contains(p, `{"in":"query","name":"pretty"`) {
		t.Errorf("the path of the other server is %s", p)
	}
	if p := text(got.Paths["/api/v1/pods"]); strings.Contains(p, "stolen") || got.Paths["/apis/wardle.example.org/v1/others"] != nil {
		t.Errorf("the other server describes what is not its own: %s", p)
	}
	const meta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
	if f := text(got.Definitions["example.wardle.v1.Flunder"]); !strings.Contains(f, `"#/definitions/`+meta+`_v2"`) || !strings.Contains(f, `"#/definitions/example.wardle.v1.Flunder"`) {
		t.Errorf("the schema of the other server is %s", f)
	}
	if theirs, ours := text(got.Definitions[meta+"_v2"]), text(got.Definitions[meta]); !strings.Contains(theirs, "older") || strings.Contains(ours, "older") {
		t.Errorf("schemas of the same name are %s and %s", theirs, ours)
	}
	if got.Definitions["example.wardle.v1.Unused"] != nil {
		t.Error("a schema that nothing refers to is there")
	}
	all = nil
	if again := ask(d, "/openapi/v2").Header().Get("Etag"); again != before {
		t.Errorf("without the other server the tag is %s, before it was %s", again, before)
	}
}

func TestBothFormsShowOtherServers(t *testing.T) {
	all := []Foreign{{Group: "wardle.example", Tag: "1", Text: []byte(wardle)}, {Group: "wardle.example", Tag: "2", Text: []byte(wardle)}}
	d := withForeign(t, &all)
	w := ask(d, "/openapi/v2", "Accept", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
	var got v2.Document
	if err := proto.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	paths, schemas := map[string]int{}, map[string]int{}
	for _, p := range got.Paths.Path {
		paths[p.Name]++
	}
	for _, s := range got.Definitions.AdditionalProperties {
		schemas[s.Name]++
	}
	if paths["/apis/wardle.example/v1/flunders"] != 1 || schemas["example.wardle.v1.Flunder"] != 1 || schemas["io.k8s.api.core.v1.Pod"] != 1 {
		t.Errorf("%d paths and %d schemas of the other server, %d of pods", paths["/apis/wardle.example/v1/flunders"], schemas["example.wardle.v1.Flunder"], schemas["io.k8s.api.core.v1.Pod"])
	}
}

func TestAServerThatDescribesItselfWronglyIsLeftOut(t *testing.T) {
	own := documents(t)
	want := ask(own, "/openapi/v2").Body.Len()
	for _, text := range []string{
		"", "null", "7", "no JSON", `[]`, `{}`, `{"paths": 7}`, `{"swagger": "2.0", "info": {"title": "x", "version": "1"}, "paths": {"/apis/wardle.example/v1": {"get": {"responses": 7}}}}`,
		`{"swagger": "2.0", "info": {"title": "x", "version": "1"}, "paths": {"/apis/wardle.example/v1": []}}`,
	} {
		all := []Foreign{{Group: "wardle.example", Tag: "1", Text: []byte(text)}}
		d := withForeign(t, &all)
		if w := ask(d, "/openapi/v2"); w.Code != http.StatusOK || w.Body.Len() != want {
			t.Errorf("with %q the answer is %d, %d bytes; want %d", text, w.Code, w.Body.Len(), want)
		}
	}
}
