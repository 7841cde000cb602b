package custom_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/millracetest"
)

// conversionWebhook converts panels: v1 has a color, v2 a colour and a label with its value.
type conversionWebhook struct {
	calls, objects atomic.Int64
	broken         atomic.Bool
	delay          time.Duration
}

func (c *conversionWebhook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.calls.Add(1)
	time.Sleep(c.delay)
	if c.broken.Load() {
		http.Error(w, "out of paint", http.StatusInternalServerError)
		return
	}
	var review v1.ConversionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.objects.Add(int64(len(review.Request.Objects)))
	review.Response = &v1.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	for _, o := range review.Request.Objects {
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(o.Raw); err != nil {
			review.Response.Result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
			break
		}
		paint(u, review.Request.DesiredAPIVersion)
		if u.GetAnnotations()["refuse"] != "" {
			review.Response.Result = metav1.Status{Status: metav1.StatusFailure, Message: "no paint for " + u.GetName()}
		}
		review.Response.ConvertedObjects = append(review.Response.ConvertedObjects, runtime.RawExtension{Object: u})
	}
	review.Request = nil
	_ = json.NewEncoder(w).Encode(review)
}

func paint(u *unstructured.Unstructured, to string) {
	from, into := "color", "colour"
	if strings.HasSuffix(to, "/v1") {
		from, into = into, from
	}
	if text, ok, _ := unstructured.NestedString(u.Object, "spec", from); ok {
		unstructured.RemoveNestedField(u.Object, "spec", from)
		_ = unstructured.SetNestedField(u.Object, text, "spec", into)
		labels := map[string]string{}
		if into == "colour" {
			labels["paint"] = text
		}
		u.SetLabels(labels)
	}
	u.SetAPIVersion(to)
}

var (
	panels  = schema.GroupVersionResource{Group: "paint.example.com", Version: "v1", Resource: "panels"}
	panels2 = panels.GroupResource().WithVersion("v2")
)

const panelDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: panels.paint.example.com}
spec:
  group: paint.example.com
  scope: Namespaced
  names: {plural: panels, kind: Panel}
  conversion:
    strategy: Webhook
    webhook:
      conversionReviewVersions: [v1]
      clientConfig: {url: "%s/convert"}
  versions:
  - name: v1
    served: true
    storage: true
    selectableFields: [{jsonPath: .spec.color}]
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {color: {type: string}, size: {type: integer, default: 2}}}}}}
  - name: v2
    served: true
    storage: false
    selectableFields: [{jsonPath: .spec.colour}, {jsonPath: .spec.finish}]
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {colour: {type: string}, size: {type: integer}, finish: {type: string, default: matt}}}}}}
`

// startConversionWebhook starts a webhook, and creates the definition of panels with it.
func startConversionWebhook(t *testing.T, d dynamic.Interface) *conversionWebhook {
	t.Helper()
	p := &conversionWebhook{}
	server := httptest.NewTLSServer(p)
	t.Cleanup(server.Close)
	made := parse(t, fmt.Sprintf(panelDefinition, server.URL))
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	config, _, _ := unstructured.NestedMap(made.Object, "spec", "conversion", "webhook", "clientConfig")
	config["caBundle"] = authority
	text := must(json.Marshal(config))(t)
	var plain map[string]any
	must("", json.Unmarshal(text, &plain))(t)
	must("", unstructured.SetNestedMap(made.Object, plain, "spec", "conversion", "webhook", "clientConfig"))(t)
	made = must(d.Resource(definitions).Create(t.Context(), made, metav1.CreateOptions{}))(t)
	await(t, d, made, func(u *unstructured.Unstructured) bool { return condition(u, "Established") == "True" })
	return p
}

func panel(version, name, field string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "paint.example.com/" + version, "kind": "Panel", "spec": map[string]any{field: "red"}}}
	u.SetName(name)
	return u
}

func TestAWebhookConvertsEachObjectOnceForAllWhoAsk(t *testing.T) {
	d := start(t)
	p := startConversionWebhook(t, d)
	one, two := d.Resource(panels).Namespace("default"), d.Resource(panels2).Namespace("default")
	const many = 30
	for i := range many {
		must(one.Create(t.Context(), panel("v1", fmt.Sprint("p", i), "color"), metav1.CreateOptions{}))(t)
	}
	if p.calls.Load() != 0 {
		t.Errorf("what is stored was converted: %d calls", p.calls.Load())
	}
	for range 3 {
		list := must(two.List(t.Context(), metav1.ListOptions{}))(t)
		if len(list.Items) != many || at(&list.Items[0], "spec", "colour") != "red" || at(&list.Items[0], "spec", "finish") != nil || at(&list.Items[0], "spec", "size") != int64(2) {
			t.Fatalf("listed %v", list.Items)
		}
	}
	w := must(two.Watch(t.Context(), metav1.ListOptions{SendInitialEvents: new(true), AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}))(t)
	defer w.Stop()
	for range many {
		if e := <-w.ResultChan(); e.Type != watch.Added || at(e.Object.(*unstructured.Unstructured), "spec", "colour") != "red" {
			t.Fatalf("watched %v", e)
		}
	}
	must(two.Get(t.Context(), "p3", metav1.GetOptions{}))(t)
	if p.calls.Load() != 1 || p.objects.Load() != many {
		t.Errorf("%d objects were converted in %d calls", p.objects.Load(), p.calls.Load())
	}
}

func TestATableShowsTheLabelsOfTheRequestedVersion(t *testing.T) {
	c := millracetest.Start(t, millrace.Options{Nodes: -1, Controllers: []string{}})
	d := must(dynamic.NewForConfig(c.Config()))(t)
	startConversionWebhook(t, d)
	must(d.Resource(panels).Namespace("default").Create(t.Context(), panel("v1", "a", "color"), metav1.CreateOptions{}))(t)
	client := must(rest.HTTPClientFor(c.Config()))(t)
	for version, want := range map[string]string{"v1": "", "v2": "red"} {
		for _, path := range []string{"", "/a"} {
			r := must(http.NewRequestWithContext(t.Context(), http.MethodGet, c.Config().Host+"/apis/paint.example.com/"+version+"/namespaces/default/panels"+path, nil))(t)
			r.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
			answer := must(client.Do(r))(t)
			var table metav1.Table
			err := json.NewDecoder(answer.Body).Decode(&table)
			answer.Body.Close()
			if err != nil || len(table.Rows) != 1 {
				t.Fatalf("%s%s: %v, %+v", version, path, err, table)
			}
			var o metav1.PartialObjectMetadata
			must("", json.Unmarshal(table.Rows[0].Object.Raw, &o))(t)
			if o.Kind != "PartialObjectMetadata" || o.Name != "a" || o.ResourceVersion == "" || o.Labels["paint"] != want || table.Rows[0].Cells[0] != "a" {
				t.Errorf("%s%s: %s", version, path, table.Rows[0].Object.Raw)
			}
		}
	}
}

func TestWhatIsWrittenInAnotherVersionIsStoredInItsOwn(t *testing.T) {
	d := start(t)
	startConversionWebhook(t, d)
	one, two := d.Resource(panels).Namespace("default"), d.Resource(panels2).Namespace("default")
	made := must(two.Create(t.Context(), panel("v2", "a", "colour"), metav1.CreateOptions{}))(t)
	if at(made, "spec", "colour") != "red" || made.GetAPIVersion() != "paint.example.com/v2" {
		t.Errorf("created as %v", made.Object)
	}
	got := must(one.Get(t.Context(), "a", metav1.GetOptions{}))(t)
	if at(got, "spec", "color") != "red" || at(got, "spec", "colour") != nil {
		t.Errorf("stored as %v", got.Object)
	}
	must("", unstructured.SetNestedField(made.Object, "green", "spec", "colour"))(t)
	must(two.Update(t.Context(), made, metav1.UpdateOptions{}))(t)
	if got := must(one.Get(t.Context(), "a", metav1.GetOptions{}))(t); at(got, "spec", "color") != "green" || got.GetGeneration() != 2 {
		t.Errorf("updated to %v", got.Object)
	}
}

func TestAFailingWebhookHarmsOnlyRequestsForTheOtherVersion(t *testing.T) {
	d := start(t)
	p := startConversionWebhook(t, d)
	one, two := d.Resource(panels).Namespace("default"), d.Resource(panels2).Namespace("default")
	must(one.Create(t.Context(), panel("v1", "a", "color"), metav1.CreateOptions{}))(t)
	p.broken.Store(true)
	for what, err := range map[string]error{
		"get":    second(two.Get(t.Context(), "a", metav1.GetOptions{})),
		"list":   second(two.List(t.Context(), metav1.ListOptions{})),
		"create": second(two.Create(t.Context(), panel("v2", "b", "colour"), metav1.CreateOptions{})),
	} {
		if err == nil || !strings.Contains(err.Error(), "conversion webhook for paint.example.com/v") || apierrors.ReasonForError(err) == metav1.StatusReasonInvalid {
			t.Errorf("%s: %v", what, err)
		}
	}
	must(one.Get(t.Context(), "a", metav1.GetOptions{}))(t)
	must(one.Create(t.Context(), panel("v1", "b", "color"), metav1.CreateOptions{}))(t)
	p.broken.Store(false)
	must(two.Get(t.Context(), "a", metav1.GetOptions{}))(t)
}

func second[T any](_ T, err error) error { return err }

func TestAnObjectThatTheWebhookRefusesHarmsNoOther(t *testing.T) {
	d := start(t)
	startConversionWebhook(t, d)
	one, two := d.Resource(panels).Namespace("default"), d.Resource(panels2).Namespace("default")
	w := must(two.Watch(t.Context(), metav1.ListOptions{}))(t)
	defer w.Stop()
	must(one.Create(t.Context(), panel("v1", "a", "color"), metav1.CreateOptions{}))(t)
	if e := <-w.ResultChan(); e.Type != watch.Added {
		t.Fatalf("watched %v", e)
	}
	bad := panel("v1", "bad", "color")
	bad.SetAnnotations(map[string]string{"refuse": "yes"})
	must(one.Create(t.Context(), bad, metav1.CreateOptions{}))(t)
	if e := <-w.ResultChan(); e.Type != watch.Error || !strings.Contains(fmt.Sprint(e.Object), "no paint for bad") {
		t.Errorf("watched %v", e)
	}
	must(two.Get(t.Context(), "a", metav1.GetOptions{}))(t)
	if _, err := two.Get(t.Context(), "bad", metav1.GetOptions{}); err == nil || !strings.HasSuffix(err.Error(), "conversion webhook for paint.example.com/v1, Kind=Panel failed: no paint for bad") {
		t.Errorf("got %v", err)
	}
}
