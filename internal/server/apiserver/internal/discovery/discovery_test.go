package discovery_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/apiserver/internal/discovery"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/builtin"
	"github.com/millrace/millrace/internal/server/resource/core"
)

const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

func documents(t *testing.T, kinds ...*resource.Kind) *discovery.Documents {
	t.Helper()
	c, err := resource.NewCatalogue(kinds...)
	if err != nil {
		t.Fatal(err)
	}
	return &discovery.Documents{Catalogue: c, Address: "127.0.0.1:6443"}
}

// get requests a document, and decodes it.
func get[T any](t *testing.T, d *discovery.Documents, path string, headers ...string) (T, *httptest.ResponseRecorder) {
	t.Helper()
	r, out := httptest.NewRequest(http.MethodGet, path, nil), httptest.NewRecorder()
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	if err := d.Serve(out, r, strings.Split(strings.Trim(path, "/"), "/")); err != nil {
		t.Fatal(err)
	}
	var v T
	if out.Code == http.StatusOK {
		if err := json.Unmarshal(out.Body.Bytes(), &v); err != nil {
			t.Fatalf("%v: %s", err, out.Body)
		}
	}
	return v, out
}

// Discovery must show what the server serves.
func TestEveryPathIsShownWithItsVerbs(t *testing.T) {
	kinds := builtin.Kinds()
	d := documents(t, kinds...)
	for _, k := range kinds {
		for _, f := range k.Served() {
			path := "/apis/" + f.GroupVersion().String()
			if f.Group == "" {
				path = "/api/" + f.Version
			}
			list, _ := get[metav1.APIResourceList](t, d, path)
			shown := map[string][]string{}
			for _, r := range list.APIResources {
				shown[r.Name] = r.Verbs
			}
			if !slices.Equal(shown[k.Resource], k.Verbs) {
				t.Errorf("%s: %s is shown with %v", path, k.Resource, shown[k.Resource])
			}
			for _, s := range k.Subresources() {
				if got := shown[k.Resource+"/"+s.Name]; len(got) == 0 || slices.ContainsFunc(got, func(v string) bool { return !s.Offers(v) }) {
					t.Errorf("%s: %s/%s is shown with %v", path, k.Resource, s.Name, got)
				}
			}
		}
	}
}

// The aggregated documents must show the same as the documents of each group.
func TestTheAggregatedDocumentsHaveTheSameContent(t *testing.T) {
	d := documents(t, builtin.Kinds()...)
	for _, path := range []string{"/api", "/apis"} {
		all, out := get[discoveryv2.APIGroupDiscoveryList](t, d, path, "Accept", aggregated)
		if out.Header().Get("Content-Type") != aggregated || len(all.Items) == 0 {
			t.Fatalf("%s: %s, %d groups", path, out.Header().Get("Content-Type"), len(all.Items))
		}
		for _, g := range all.Items {
			for _, v := range g.Versions {
				at := strings.ReplaceAll(path+"/"+g.Name+"/"+v.Version, "//", "/")
				list, _ := get[metav1.APIResourceList](t, d, at)
				if got, want := len(names(v)), len(list.APIResources); got != want {
					t.Errorf("%s has %d resources, and %d in the aggregated document", at, want, got)
				}
				for _, r := range list.APIResources {
					if !slices.Equal(names(v)[r.Name], r.Verbs) {
						t.Errorf("%s: %s has %v and %v", at, r.Name, r.Verbs, names(v)[r.Name])
					}
				}
			}
		}
	}
}

// names returns the verbs of all resources and subresources.
func names(v discoveryv2.APIVersionDiscovery) map[string][]string {
	out := map[string][]string{}
	for _, r := range v.Resources {
		out[r.Resource] = r.Verbs
		for _, s := range r.Subresources {
			out[r.Resource+"/"+s.Subresource] = s.Verbs
		}
	}
	return out
}

func TestAMatchingETagIsAnsweredWithoutADocument(t *testing.T) {
	d := documents(t, core.Pods())
	_, first := get[any](t, d, "/api", "Accept", aggregated)
	tag := first.Header().Get("ETag")
	_, again := get[any](t, d, "/api", "Accept", aggregated, "If-None-Match", tag)
	if tag == "" || again.Code != http.StatusNotModified || again.Body.Len() != 0 {
		t.Errorf("tag %q, then %d with %d bytes", tag, again.Code, again.Body.Len())
	}
	_, other := get[any](t, documents(t, core.Nodes()), "/api", "Accept", aggregated, "If-None-Match", tag)
	if other.Code != http.StatusOK {
		t.Errorf("other kinds are answered by %d", other.Code)
	}
}

func TestAChangedCatalogueIsShownAtOnce(t *testing.T) {
	d := documents(t, core.Pods())
	if list, _ := get[metav1.APIResourceList](t, d, "/api/v1"); len(list.APIResources) != 1+len(core.Pods().Subresources()) {
		t.Fatalf("the server shows %v", list.APIResources)
	}
	if err := d.Catalogue.Exchange(core.ConfigMaps().GroupResource(), core.ConfigMaps()); err != nil {
		t.Fatal(err)
	}
	list, _ := get[metav1.APIResourceList](t, d, "/api/v1")
	if list.APIResources[0].Name != "configmaps" {
		t.Errorf("the server shows %v", list.APIResources)
	}
}

func TestGroupsPreferTheirNewestStableVersion(t *testing.T) {
	groups, _ := get[metav1.APIGroupList](t, documents(t, builtin.Kinds()...), "/apis")
	for _, g := range groups.Groups {
		if g.Name == "autoscaling" && (g.PreferredVersion.Version != "v2" || len(g.Versions) != 2) {
			t.Errorf("autoscaling prefers %v of %v", g.PreferredVersion, g.Versions)
		}
	}
}

func TestWhatIsNotServedIsNotFound(t *testing.T) {
	d := documents(t, core.Pods())
	for _, path := range []string{"/api/v2", "/apis/apps", "/apis/apps/v1", "/apis/apps/v1/deployments/x"} {
		if _, out := get[any](t, d, path); out.Code != http.StatusNotFound {
			t.Errorf("%s is answered by %d", path, out.Code)
		}
	}
}
