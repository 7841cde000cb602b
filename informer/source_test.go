package informer_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/informer"
)

// The types are the test: it does not compile if a source takes more than one line.
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
