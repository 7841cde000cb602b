package openapi

import (
	"bytes"
	"encoding/json"
	"io"
	"regexp"
	"testing"

	v2 "github.com/google/gnostic-models/openapiv2"
	v3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"sigs.k8s.io/yaml"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/builtin"
)

func documents(t testing.TB) *Documents {
	t.Helper()
	c, err := resource.NewCatalogue(builtin.Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	d := New(Options{Catalogue: c, Version: "v1.37.0"})
	t.Cleanup(d.Close)
	return d
}

func written(t testing.TB, d *Documents, id string, f form) []byte {
	t.Helper()
	var b bytes.Buffer
	plain := d.plainOf(id)
	if id == everything {
		plain = plainPaths(d.facesOf(id))
	}
	if err := d.document(d.facesOf(id), plain, nil).write(f.writer(&b)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// The libraries of clients parse JSON into the messages of the protobuf form: both forms must have the same content.
func TestBothFormsOfVersion3HaveTheSameContent(t *testing.T) {
	d := documents(t)
	// Parsing is slow: the largest group is tested in version 2 only.
	for _, id := range []string{"apis/apps/v1", "apis/autoscaling/v2", "apis/events.k8s.io/v1", "api", "apis", "apis/apps", "version", "openid/v1/jwks"} {
		t.Run(id, func(t *testing.T) {
			want, err := v3.ParseDocument(written(t, d, id, form{}))
			if err != nil {
				t.Fatal(err)
			}
			got := &v3.Document{}
			if err := proto.Unmarshal(written(t, d, id, form{proto: true}), got); err != nil {
				t.Fatal(err)
			}
			for i, p := range got.GetPaths().GetPath() {
				sameMessage(t, "path "+p.Name, p, want.GetPaths().GetPath()[i])
			}
			for i, s := range got.GetComponents().GetSchemas().GetAdditionalProperties() {
				sameMessage(t, "schema "+s.Name, s, want.GetComponents().GetSchemas().GetAdditionalProperties()[i])
			}
			sameMessage(t, "document", got, want)
		})
	}
}

func TestBothFormsOfVersion2HaveTheSameContent(t *testing.T) {
	d := documents(t)
	want, err := v2.ParseDocument(written(t, d, "api/v1", form{v2: true}))
	if err != nil {
		t.Fatal(err)
	}
	got := &v2.Document{}
	if err := proto.Unmarshal(written(t, d, "api/v1", form{v2: true, proto: true}), got); err != nil {
		t.Fatal(err)
	}
	for i, p := range got.GetPaths().GetPath() {
		sameMessage(t, "path "+p.Name, p, want.GetPaths().GetPath()[i])
	}
	for i, s := range got.GetDefinitions().GetAdditionalProperties() {
		sameMessage(t, "definition "+s.Name, s, want.GetDefinitions().GetAdditionalProperties()[i])
	}
	sameMessage(t, "document", got, want)
}

// sameMessage ends the test at the first difference.
func sameMessage(t *testing.T, what string, got, want proto.Message) {
	t.Helper()
	plainYAML(t, got.ProtoReflect())
	plainYAML(t, want.ProtoReflect())
	if proto.Equal(got, want) {
		return
	}
	a, b := prototext.Format(got), prototext.Format(want)
	at := 0
	for at < min(len(a), len(b)) && a[at] == b[at] {
		at++
	}
	from := max(0, at-200)
	t.Fatalf("%s:\n got …%.400s\nwant …%.400s", what, a[from:], b[from:])
}

// plainYAML normalizes values that are kept as YAML.
func plainYAML(t *testing.T, m protoreflect.Message) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Name() == "yaml":
			var value any
			if err := yaml.Unmarshal([]byte(v.String()), &value); err != nil {
				t.Fatal(err)
			}
			m.Set(f, protoreflect.ValueOfString(string(encoded(value))))
		case f.IsList() && f.Message() != nil:
			for i := range v.List().Len() {
				plainYAML(t, v.List().Get(i).Message())
			}
		case f.Message() != nil:
			plainYAML(t, v.Message())
		}
		return true
	})
}

func TestThereAreDocumentsOfDiscoveryAndOfTheServer(t *testing.T) {
	d := documents(t)
	there, err := d.list()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{
		".well-known/openid-configuration", "api", "api/v1", "apis", "apis/apps", "apis/apps/v1", "apis/rbac.authorization.k8s.io",
		"openid/v1/jwks", "version",
	} {
		if there[id] == "" {
			t.Errorf("the index lacks %s", id)
		}
		if _, _, found, err := d.find(id, form{}, nil); !found || err != nil {
			t.Errorf("%s: found %v, %v", id, found, err)
		}
	}
	if _, _, found, _ := d.find("apis/nothing.example.com", form{}, nil); found {
		t.Error("a group that is not there has a document")
	}
}

// The groups of custom kinds have no document of their own, as in Kubernetes: only their versions have.
func TestCustomGroupsAreDescribedByVersionOnly(t *testing.T) {
	d := documents(t)
	k := custom("foo", 1)
	if err := d.o.Catalogue.Exchange(k.GroupResource(), k); err != nil {
		t.Fatal(err)
	}
	there, err := d.list()
	if err != nil || there["apis/foo.example.com/v1"] == "" || there["apis/foo.example.com"] != "" {
		t.Errorf("the index has %q and %q: %v", there["apis/foo.example.com/v1"], there["apis/foo.example.com"], err)
	}
}

// Kubernetes' document has some 2.4 MB. A parameter of a kilobyte that each path repeats makes ours half again as large.
func TestPathsReferToTheParametersThatTheyShare(t *testing.T) {
	var got struct {
		Paths      map[string]json.RawMessage
		Parameters map[string]struct{ Name string }
	}
	text := written(t, documents(t), everything, form{v2: true})
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for path, item := range got.Paths {
		for _, match := range regexp.MustCompile(`"#/parameters/([^"]*)"`).FindAllSubmatch(item, -1) {
			used[string(match[1])] = true
			if got.Parameters[string(match[1])].Name == "" {
				t.Errorf("%s refers to %s, which is not there", path, match[1])
			}
		}
		if bytes.Contains(item, []byte(`"name":"continue"`)) {
			t.Errorf("%s repeats a parameter", path)
		}
	}
	for name := range got.Parameters {
		if !used[name] {
			t.Errorf("nothing refers to %s", name)
		}
	}
	patch := got.Paths["/api/v1/namespaces/{namespace}/configmaps/{name}"]
	if !bytes.Contains(patch, []byte(`"name":"dryRun"`)) || !bytes.Contains(patch, []byte(`"name":"fieldValidation"`)) {
		t.Error("dryRun and fieldValidation are not where clients look for them")
	}
}

func TestJSONIsValid(t *testing.T) {
	d := documents(t)
	for _, c := range []struct {
		id string
		f  form
	}{{"api/v1", form{}}, {everything, form{v2: true}}} {
		if b := written(t, d, c.id, c.f); !json.Valid(b) {
			t.Errorf("document %q is not JSON", c.id)
		}
	}
}

func BenchmarkIndex(b *testing.B) {
	for b.Loop() {
		d := documents(b)
		if _, err := d.list(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCore(b *testing.B) {
	d := documents(b)
	for name, f := range map[string]form{"v3 JSON": {}, "v3 protobuf": {proto: true}} {
		b.Run(name, func(b *testing.B) { benchmark(b, d, "api/v1", f) })
	}
	for name, f := range map[string]form{"v2 JSON": {v2: true}, "v2 protobuf": {v2: true, proto: true}} {
		b.Run(name, func(b *testing.B) { benchmark(b, d, everything, f) })
	}
}

func benchmark(b *testing.B, d *Documents, id string, f form) {
	b.ReportAllocs()
	plain := len(written(b, d, id, f))
	text, _, _, err := d.find(id, f, nil)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := d.compressLocked(d.document(d.facesOf(id), nil, nil), f, io.Discard); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(plain), "bytes")
	b.ReportMetric(float64(len(text)), "gzipped")
}
