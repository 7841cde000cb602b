package informer_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/informer/informertest"
	"github.com/millrace/millrace/informer/internal/wire"
	"github.com/millrace/millrace/watch"
)

var byOwner = informer.FieldIndex[*corev1.Pod]("metadata.ownerReferences.uid")

func fullPod(name string) *corev1.Pod {
	yes := true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, Labels: map[string]string{"app": name}, Annotations: map[string]string{"note": "x"},
			OwnerReferences: []metav1.OwnerReference{{UID: "owner-1", Controller: &yes}, {UID: "owner-2"}},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{".":{},"f:app":{}}}}`)}}},
		Spec: corev1.PodSpec{NodeName: "node-" + name, Containers: []corev1.Container{{Name: "c", Image: "image"}}},
	}
}

// podServer serves a source over HTTP, in protobuf for clients that accept it.
type podServer struct {
	*informertest.Source[*corev1.Pod]
	jsonOnly bool
}

func (s *podServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var options metav1.ListOptions
	if err := metav1.Convert_url_Values_To_v1_ListOptions(new(r.URL.Query()), &options, nil); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	proto := strings.HasPrefix(r.Header.Get("Accept"), "application/vnd.kubernetes.protobuf") && !s.jsonOnly
	w.Header().Set("Content-Type", "application/json")
	if proto {
		w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf")
	}
	if options.Watch {
		s.serveWatch(w, r, options, proto)
		return
	}
	items, meta, err := s.List(r.Context(), options)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	list := &corev1.PodList{ListMeta: meta}
	for _, item := range items {
		list.Items = append(list.Items, *item)
	}
	w.Write(encodeFor(proto, "PodList", list))
}

func (s *podServer) serveWatch(w http.ResponseWriter, r *http.Request, options metav1.ListOptions, proto bool) {
	stream, err := s.Watch(r.Context(), options)
	if err != nil {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`))
		return
	}
	flusher := http.NewResponseController(w)
	_ = flusher.Flush()
	for event := range watch.All(r.Context(), stream) {
		var object []byte
		if event.Type == watch.Error {
			object = encodeFor(proto, "Status", &metav1.Status{Code: 410, Reason: metav1.StatusReasonExpired, Status: "Failure"})
		} else if event.Object != nil {
			object = encodeFor(proto, "Pod", event.Object)
		} else {
			return
		}
		out := metav1.WatchEvent{Type: string(event.Type), Object: apiruntime.RawExtension{Raw: object}}
		if proto {
			frame, _ := out.Marshal()
			w.Write(binary.BigEndian.AppendUint32(nil, uint32(len(frame))))
			w.Write(frame)
		} else {
			line, _ := json.Marshal(&out)
			w.Write(append(line, '\n'))
		}
		_ = flusher.Flush()
	}
}

func encodeFor(proto bool, kind string, object any) []byte {
	if proto {
		raw, _ := wire.Encode(object)
		unknown := apiruntime.Unknown{TypeMeta: apiruntime.TypeMeta{APIVersion: "v1", Kind: kind}, Raw: raw}
		content, _ := unknown.Marshal()
		return append([]byte("k8s\x00"), content...)
	}
	content, _ := json.Marshal(object)
	return append([]byte(fmt.Sprintf(`{"kind":%q,"apiVersion":"v1",`, kind)), content[1:]...)
}

func TestPodsArriveOverEveryKindOfConnection(t *testing.T) {
	for _, test := range []struct {
		name            string
		jsonOnly, pages bool
		options         informer.Options[*corev1.Pod]
	}{
		{name: "streamed protobuf"},
		{name: "pages of protobuf", pages: true, options: informer.Options[*corev1.Pod]{PageSize: 2}},
		{name: "streamed JSON from a server that has no protobuf", jsonOnly: true},
		{name: "pages of JSON", jsonOnly: true, pages: true, options: informer.Options[*corev1.Pod]{PageSize: 2}},
		{name: "kept decoded", options: informer.Options[*corev1.Pod]{HotBytes: -1}},
		{name: "transformed", options: informer.Options[*corev1.Pod]{Transform: func(p *corev1.Pod) (*corev1.Pod, error) {
			p.Annotations = nil
			return p, nil
		}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := &podServer{Source: informertest.NewSource(fullPod("one"), fullPod("two"), fullPod("three")), jsonOnly: test.jsonOnly}
			server.RefuseStreaming = test.pages
			web := httptest.NewServer(server)
			defer web.Close()
			clientset := kubernetes.NewForConfigOrDie(&rest.Config{Host: web.URL})
			test.options.DropManagedFields = true
			test.options.Indexes = []*informer.Index[*corev1.Pod]{byOwner, byNodeName}
			pods := informer.New(informer.For(clientset.CoreV1().Pods("")), test.options)
			defer runUntilReturn(t, pods)()
			checkOverTheWire(t, server, pods, test.options.Transform != nil)
			if test.options.HotBytes == 0 && !informer.KeptEncoded(pods, informer.Key{Namespace: "a", Name: "one"}) {
				t.Error("the pods are not kept encoded")
			}
		})
	}
}

func TestAReflectorDecodesOneObjectAtATime(t *testing.T) {
	server := &podServer{Source: informertest.NewSource(fullPod("one"), fullPod("two"))}
	server.RefuseStreaming = true
	web := httptest.NewServer(server)
	defer web.Close()
	clientset := kubernetes.NewForConfigOrDie(&rest.Config{Host: web.URL})
	store := informer.NewStore(informer.StoreOptions[*corev1.Pod]{})
	source := &unread{Source: informer.For(clientset.CoreV1().Pods(""))}
	encoded, _ := informer.EncodedOf(source.Source, true)
	r := informer.NewReflector(informer.WithEncoded[*corev1.Pod](source, encoded), store, informer.Options[*corev1.Pod]{DropManagedFields: true})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	written := server.Modify(fullPod("two"))
	for deadline := time.Now().Add(10 * time.Second); r.LastResourceVersion() != written.ResourceVersion && time.Now().Before(deadline); {
		runtime.Gosched()
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	got, ok := store.Lookup(informer.Key{Namespace: "a", Name: "two"})
	if !ok || got.ResourceVersion != written.ResourceVersion || got.Spec.NodeName != "node-two" || got.ManagedFields != nil || store.Len() != 2 {
		t.Errorf("the store has %v among %d", got, store.Len())
	}
	if source.lists != 0 {
		t.Error("whole pages were decoded")
	}
}

// unread is a source that counts the requests for decoded lists.
type unread struct {
	informer.Source[*corev1.Pod]
	lists int
}

func (u *unread) List(ctx context.Context, options metav1.ListOptions) ([]*corev1.Pod, metav1.ListMeta, error) {
	u.lists++
	return u.Source.List(ctx, options)
}

func runUntilReturn[T any](t *testing.T, s *informer.Shared[T]) func() {
	t.Helper()
	ended := make(chan error)
	ctx, cancel := contextOf(t)
	go func() { ended <- s.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

func contextOf(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), time.Minute)
}

func checkOverTheWire(t *testing.T, server *podServer, pods *informer.Shared[*corev1.Pod], transformed bool) {
	t.Helper()
	ctx, cancel := contextOf(t)
	defer cancel()
	if err := pods.Synced(ctx); err != nil {
		t.Fatal(err)
	}
	moved := fullPod("two")
	moved.Spec.NodeName = "elsewhere"
	server.Delete(fullPod("three"))
	if err := pods.WaitFor(ctx, server.Modify(moved).ResourceVersion); err != nil {
		t.Fatal(err)
	}
	got, _ := pods.Get("a", "two")
	want := server.Objects()[1]
	want.ManagedFields = nil
	if transformed {
		want.Annotations = nil
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if pods.Len() != 2 {
		t.Errorf("%d pods, want 2", pods.Len())
	}
	count := 0
	for range pods.By(byOwner, "owner-2") {
		count++
	}
	for p := range pods.By(byNodeName, "elsewhere") {
		count += 10 * len(p.Name)
	}
	for p := range pods.Select(labels.SelectorFromSet(labels.Set{"app": "one"})) {
		count += 100 * len(p.Name)
	}
	if count != 2+30+300 {
		t.Errorf("indexes and selectors found %d", count)
	}
}

func TestAResourceIsAClientAndASource(t *testing.T) {
	server := &podServer{Source: informertest.NewSource(fullPod("one"), fullPod("two"))}
	server.Fields = func(p *corev1.Pod) fields.Set { return fields.Set{"spec.nodeName": p.Spec.NodeName} }
	web := httptest.NewServer(server)
	defer web.Close()
	connection := kubernetes.NewForConfigOrDie(&rest.Config{Host: web.URL}).CoreV1().RESTClient()
	own := informer.ResourceOf[*corev1.Pod](connection, "pods").WithField("spec.nodeName", "node-two")
	items, list, err := own.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(items) != 1 || items[0].Name != "two" || list.ResourceVersion == "" {
		t.Errorf("List: %v, %v, %v", items, list, err)
	}
	pods := informer.New[*corev1.Pod](own, informer.Options[*corev1.Pod]{LabelSelector: "app=two"})
	defer runUntilReturn(t, pods)()
	ctx, cancel := contextOf(t)
	defer cancel()
	if err := pods.Synced(ctx); err != nil || pods.Len() != 1 {
		t.Errorf("Synced: %v; %d pods", err, pods.Len())
	}
	asked := server.Requests("watch")[0]
	if asked.FieldSelector != "spec.nodeName=node-two" || asked.LabelSelector != "app=two" {
		t.Errorf("asked for %+v", asked)
	}
}
