package clients_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/millrace/millrace"
)

// A selector turns events of an object into events of the selection.
func TestSelectorsDecideWhatAnEventIs(t *testing.T) {
	eachWire(t, func(t *testing.T, k *kubernetes.Clientset, ns string) {
		maps := k.CoreV1().ConfigMaps(ns)
		w := must(maps.Watch(t.Context(), metav1.ListOptions{LabelSelector: "in=yes"}))(t)
		defer w.Stop()
		expect := func(kind watch.EventType, content string, version string) {
			t.Helper()
			e := next(t, w)
			o, ok := e.Object.(*corev1.ConfigMap)
			if !ok || e.Type != kind || o.Data["k"] != content || o.ResourceVersion != version {
				t.Fatalf("got %s %+v, want %s of %q at %s", e.Type, e.Object, kind, content, version)
			}
		}
		label := func(name, value, content string) string {
			t.Helper()
			text := fmt.Sprintf(`{"metadata":{"labels":{"in":%q}},"data":{"k":%q}}`, value, content)
			return must(maps.Patch(t.Context(), name, types.MergePatchType, []byte(text), metav1.PatchOptions{}))(t).ResourceVersion
		}
		must(maps.Create(t.Context(), configMap("neither", nil), metav1.CreateOptions{}))(t)
		label("neither", "no", "unseen")
		made := must(maps.Create(t.Context(), configMap("a", map[string]string{"in": "yes"}), metav1.CreateOptions{}))(t)
		expect(watch.Added, "v", made.ResourceVersion)
		expect(watch.Modified, "two", label("a", "yes", "two"))
		expect(watch.Deleted, "two", label("a", "no", "three")) // the last content that matched, at the event's version
		label("a", "no", "four")
		expect(watch.Added, "five", label("a", "yes", "five"))
		if err := maps.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		e := next(t, w)
		if o := e.Object.(*corev1.ConfigMap); e.Type != watch.Deleted || o.Data["k"] != "five" {
			t.Errorf("%s %v", e.Type, o)
		}
	})
}

func TestFieldSelectorsFollowPodsToTheirNode(t *testing.T) {
	eachWire(t, func(t *testing.T, k *kubernetes.Clientset, ns string) {
		pods := k.CoreV1().Pods(ns)
		waiting := must(pods.Watch(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName="}))(t)
		defer waiting.Stop()
		mine := must(pods.Watch(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=n1"}))(t)
		defer mine.Stop()
		one := must(pods.Watch(t.Context(), metav1.SingleObject(metav1.ObjectMeta{Name: "p1"})))(t)
		defer one.Stop()
		for i := range 2 {
			name := fmt.Sprintf("p%d", i)
			must(pods.Create(t.Context(), pod(name), metav1.CreateOptions{}))(t)
			binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: fmt.Sprintf("n%d", i)}}
			if err := pods.Bind(t.Context(), binding, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		for _, want := range []string{"ADDED p0 ", "DELETED p0 ", "ADDED p1 ", "DELETED p1 "} {
			expectPod(t, waiting, want)
		}
		expectPod(t, mine, "ADDED p1 n1")
		expectPod(t, one, "ADDED p1 ")
		expectPod(t, one, "MODIFIED p1 n1")
	})
}

func expectPod(t *testing.T, w watch.Interface, want string) {
	t.Helper()
	e := next(t, w)
	p := e.Object.(*corev1.Pod)
	if got := fmt.Sprintf("%s %s %s", e.Type, p.Name, p.Spec.NodeName); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestABookmarkEndsTheInitialEvents(t *testing.T) {
	eachWire(t, func(t *testing.T, k *kubernetes.Clientset, ns string) {
		maps := k.CoreV1().ConfigMaps(ns)
		for i := range 3 {
			must(maps.Create(t.Context(), configMap(fmt.Sprint("c", i), nil), metav1.CreateOptions{}))(t)
		}
		o := metav1.ListOptions{SendInitialEvents: ptr.To(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true}
		w := must(maps.Watch(t.Context(), o))(t)
		defer w.Stop()
		var newest uint64
		for i := range 3 {
			e := next(t, w)
			o := e.Object.(*corev1.ConfigMap)
			if e.Type != watch.Added || o.Name != fmt.Sprint("c", i) {
				t.Fatalf("%s %s", e.Type, o.Name)
			}
			newest = max(newest, version(t, o.ResourceVersion))
		}
		e := next(t, w)
		mark := e.Object.(*corev1.ConfigMap)
		if e.Type != watch.Bookmark || mark.Annotations[metav1.InitialEventsAnnotationKey] != "true" || version(t, mark.ResourceVersion) < newest {
			t.Fatalf("%s %+v", e.Type, mark.ObjectMeta)
		}
		must(maps.Create(t.Context(), configMap("later", nil), metav1.CreateOptions{}))(t)
		if e := next(t, w); e.Type != watch.Added || e.Object.(*corev1.ConfigMap).Name != "later" {
			t.Errorf("%+v", e)
		}

		// A watch with a timeout sends a bookmark at its end, so that the next one can continue there.
		o.TimeoutSeconds = ptr.To(int64(1))
		short := must(maps.Watch(t.Context(), o))(t)
		defer short.Stop()
		var last watch.Event
		for e := range short.ResultChan() {
			last = e
		}
		if last.Type != watch.Bookmark || last.Object.(*corev1.ConfigMap).Annotations[metav1.InitialEventsAnnotationKey] != "" {
			t.Errorf("the last event is %+v", last)
		}
	})
}

func version(t testing.TB, text string) uint64 {
	t.Helper()
	return must(strconv.ParseUint(text, 10, 64))(t)
}

func TestWatchesFromThePastAreToldThatItIsGone(t *testing.T) {
	c := start(t, millrace.Options{Window: func(string) (int, int) { return 5, 1 << 20 }})
	for name, wire := range wires {
		t.Run(name, func(t *testing.T) {
			config := c.Config()
			wire(config)
			maps := clientset(t, config).CoreV1().ConfigMaps("default")
			first := must(maps.Create(t.Context(), configMap(strings.ToLower(name)+"-first", nil), metav1.CreateOptions{}))(t)
			for i := range 100 { // more than any window keeps
				must(maps.Create(t.Context(), configMap(fmt.Sprint(strings.ToLower(name), "-", i), nil), metav1.CreateOptions{}))(t)
			}
			w := must(maps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: first.ResourceVersion}))(t)
			defer w.Stop()
			e := next(t, w)
			if err := apierrors.FromObject(e.Object); e.Type != watch.Error || !apierrors.IsResourceExpired(err) {
				t.Errorf("%s %v", e.Type, err)
			}
			if _, open := <-w.ResultChan(); open {
				t.Error("the watch goes on")
			}
		})
	}
}

func TestPagesShowOneStateWhateverHappens(t *testing.T) {
	for _, uncached := range [][]string{nil, {"configmaps"}} {
		c := start(t, millrace.Options{Uncached: uncached})
		for name, wire := range wires {
			t.Run(fmt.Sprint(name, uncached), func(t *testing.T) {
				config := c.Config()
				wire(config)
				k := clientset(t, config)
				ns := must(k.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "pages-"}}, metav1.CreateOptions{}))(t)
				maps := k.CoreV1().ConfigMaps(ns.Name)
				var want []string
				for i := range 25 {
					want = append(want, fmt.Sprintf("c%02d", i))
					must(maps.Create(t.Context(), configMap(want[i], map[string]string{"odd": fmt.Sprint(i%2 == 1)}), metav1.CreateOptions{}))(t)
				}
				var got []string
				o := metav1.ListOptions{Limit: 7}
				first := ""
				for page := 0; ; page++ {
					list := must(maps.List(t.Context(), o))(t)
					for _, item := range list.Items {
						got = append(got, item.Name)
						if item.Data["k"] != "v" {
							t.Errorf("page %d shows a later %s", page, item.Name)
						}
					}
					if first == "" {
						first = list.ResourceVersion
					}
					if list.ResourceVersion != first {
						t.Errorf("page %d is of %s, the first of %s", page, list.ResourceVersion, first)
					}
					if o.Continue = list.Continue; o.Continue == "" {
						break
					}
					if list.RemainingItemCount == nil || int(*list.RemainingItemCount) != 25-len(got) {
						t.Errorf("page %d: remaining %v", page, list.RemainingItemCount)
					}
					must(maps.Create(t.Context(), configMap(fmt.Sprintf("c%02dx", page*7+9), nil), metav1.CreateOptions{}))(t)
					must(maps.Patch(t.Context(), "c24", types.MergePatchType, []byte(`{"data":{"k":"later`+fmt.Sprint(page)+`"}}`), metav1.PatchOptions{}))(t)
					if err := maps.Delete(t.Context(), fmt.Sprintf("c%02d", 23-page), metav1.DeleteOptions{}); err != nil {
						t.Error(err)
					}
				}
				if !slices.Equal(got, want) {
					t.Errorf("got %v", got)
				}
				if odd := must(maps.List(t.Context(), metav1.ListOptions{LabelSelector: "odd=true", Limit: 3}))(t); len(odd.Items) != 3 || odd.Continue == "" || odd.RemainingItemCount != nil {
					t.Errorf("a page of a selection: %d, %q, %v", len(odd.Items), odd.Continue, odd.RemainingItemCount)
				}
				exact := must(maps.List(t.Context(), metav1.ListOptions{ResourceVersion: first, ResourceVersionMatch: metav1.ResourceVersionMatchExact}))(t)
				if len(exact.Items) != 25 || exact.ResourceVersion != first {
					t.Errorf("exactly %s has %d at %s", first, len(exact.Items), exact.ResourceVersion)
				}
			})
		}
	}
}
