package connections_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace"
)

func TestAClusterReachesItsKubeletsAndEndsTheirStreamsWhenItEnds(t *testing.T) {
	caller, left := make(chan string, 1), make(chan struct{})
	kubelet := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(left)
		subject := r.TLS.PeerCertificates[0].Subject
		caller <- fmt.Sprintf("%s of %q", subject.CommonName, subject.Organization)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	kubelet.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	kubelet.StartTLS()
	t.Cleanup(kubelet.Close)

	cluster, err := millrace.Start(t.Context(), millrace.Options{Controllers: []string{}, NoScheduler: true})
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	k, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	addNodeWithPod(t, k, kubelet.Listener.Addr().String())
	stream, err := k.CoreV1().Pods("default").GetLogs("pod", &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if got := <-caller; got != "kube-apiserver-kubelet-client of []" {
		t.Errorf("%s calls", got)
	}
	if err := cluster.Close(); err != nil {
		t.Error(err)
	}
	<-left
}

func addNodeWithPod(t *testing.T, k *kubernetes.Clientset, address string) {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	node, err := k.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(number)
	if _, err := k.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}, Spec: corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "main", Image: "x"}}}}
	if _, err := k.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
