package informer

import (
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestGeneratedClientsNameTheirResource(t *testing.T) {
	clientset := kubernetes.NewForConfigOrDie(&rest.Config{})
	if got := resourceOf(clientset.CoreV1().Pods("")); got != "pods" {
		t.Errorf("the resource of a generated client is %q: its field has another name, and informers do not ask for protobuf any more", got)
	}
}
