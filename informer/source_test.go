package informer_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/informer/informertest"
)

// This is a test of types: it does not compile if any source needs more than one line.
func TestASourceIsMadeOfAnyClientInOneLine(t *testing.T) {
	config := &rest.Config{Host: "http://127.0.0.1:1"}
	resource := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	clientset := kubernetes.NewForConfigOrDie(config)
	var pods informer.Source[*corev1.Pod] = informer.For(clientset.CoreV1().Pods("default"))
	var nodes informer.Source[*corev1.Node] = informer.For(clientset.CoreV1().Nodes())
	var loose informer.Source[*unstructured.Unstructured] = informer.Dynamic(dynamic.NewForConfigOrDie(config), resource, "")
	var partial informer.Source[*metav1.PartialObjectMetadata] = informer.Metadata(metadata.NewForConfigOrDie(config), resource, "")
	_, _, _, _ = pods, nodes, loose, partial
}

func TestAFactorySharesWhatIsTheSame(t *testing.T) {
	clientset := kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://127.0.0.1:1"})
	factory := informer.NewFactory(informer.FactoryOptions{})
	share := func(namespace string, options informer.Options[*corev1.Pod]) *informer.Shared[*corev1.Pod] {
		return informer.Share(factory, informer.For(clientset.CoreV1().Pods(namespace)), options)
	}
	all := share("", informer.Options[*corev1.Pod]{})
	if share("", informer.Options[*corev1.Pod]{}) != all {
		t.Error("the same pods were not shared")
	}
	if share("default", informer.Options[*corev1.Pod]{}) == all {
		t.Error("pods of different namespaces were shared")
	}
	if share("", informer.Options[*corev1.Pod]{FieldSelector: "spec.nodeName=a"}) == all {
		t.Error("pods of different selections were shared")
	}
}

func TestAFactorySharesWhatFakeClientsHave(t *testing.T) {
	one, other := fake.NewClientset(), fake.NewClientset()
	factory := informer.NewFactory(informer.FactoryOptions{})
	share := func(clientset *fake.Clientset, namespace string) *informer.Shared[*corev1.Pod] {
		return informer.Share(factory, informer.For(clientset.CoreV1().Pods(namespace)), informer.Options[*corev1.Pod]{})
	}
	all := share(one, "")
	if share(one, "") != all {
		t.Error("the same pods were not shared")
	}
	if share(one, "default") == all || share(other, "") == all {
		t.Error("different pods were shared")
	}
}

func TestAFactoryOfOneServerSharesWhatDifferentClientsSee(t *testing.T) {
	for _, one := range []bool{true, false} {
		factory := informer.NewFactory(informer.FactoryOptions{OneServer: one})
		share := func(namespace string) *informer.Shared[*corev1.Pod] {
			clientset := kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://127.0.0.1:1"})
			return informer.Share(factory, informer.For(clientset.CoreV1().Pods(namespace)), informer.Options[*corev1.Pod]{})
		}
		if all := share(""); (share("") == all) != one || share("default") == all {
			t.Errorf("one server: %v; different pods were shared, or the same were not", one)
		}
	}
}

func TestAFactorySharesProjectionsOfTheSameKindOnly(t *testing.T) {
	clientset := kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://127.0.0.1:1"})
	factory := informer.NewFactory(informer.FactoryOptions{})
	names := informer.ShareProjection(factory, informer.For(clientset.CoreV1().Nodes()), func(n *corev1.Node) string { return n.Name }, informer.Options[string]{})
	others := informer.ShareProjection(factory, informer.For(clientset.CoreV1().Namespaces()), func(n *corev1.Namespace) string { return n.Name }, informer.Options[string]{})
	if names == others {
		t.Error("nodes and namespaces were taken for the same")
	}
}

// scopedClient is a client that does not say what it lists.
type scopedClient struct {
	informer.Client[*corev1.Pod, *corev1.PodList]
	namespace string
}

func TestSourcesThatCannotBeToldApartAreNeverShared(t *testing.T) {
	for _, one := range []bool{true, false} {
		factory := informer.NewFactory(informer.FactoryOptions{OneServer: one})
		share := func(source informer.Source[*corev1.Pod]) *informer.Shared[*corev1.Pod] {
			return informer.Share(factory, source, informer.Options[*corev1.Pod]{})
		}
		first, second := share(informer.Funcs[*corev1.Pod]{}), share(informer.Funcs[*corev1.Pod]{})
		if first == second {
			t.Errorf("one server: %v; sources of functions were shared", one)
		}
		client := func(namespace string) scopedClient { return scopedClient{namespace: namespace} }
		if share(informer.For(client("a"))) == share(informer.For(client("b"))) {
			t.Errorf("one server: %v; clients that do not say what they list were shared", one)
		}
		if share(informer.ForNamespaces(client, "a", "b")) == share(informer.ForNamespaces(client, "c", "d")) {
			t.Errorf("one server: %v; namespaces of such clients were shared", one)
		}
		source := informertest.NewSource(pod("a", "one"))
		first, second = share(source), share(source)
		if first != second || first == share(informertest.NewSource(pod("a", "one"))) {
			t.Errorf("one server: %v; a source was not shared with itself, or was with another", one)
		}
	}
}

func TestAProjectionMayHaveFieldsOfItsOwn(t *testing.T) {
	type placement struct{ node string }
	source := informertest.NewSource(pod("a", "one"))
	synctest.Test(t, func(t *testing.T) {
		placements := informer.Project(source, func(p *corev1.Pod) placement { return placement{p.Spec.NodeName} }, informer.Options[placement]{})
		start(t, placements)
		synctest.Wait()
		source.Compact()
		source.EndWatches(errors.New("connection reset")) // the next list is compared with the cache
		source.Compact()
		source.Add(pod("a", "two"))
		time.Sleep(time.Minute)
		if placements.Len() != 2 {
			t.Errorf("%d placements", placements.Len())
		}
	})
}
