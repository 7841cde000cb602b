package connections_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/server/pki"
)

func TestAClusterReachesItsKubeletsAndEndsTheirStreamsWhenItEnds(t *testing.T) {
	reachKubelet(t, millrace.ServingOptions{}, corev1.NodeInternalIP, "kube-apiserver-kubelet-client of []")
}

func TestAClusterCallsKubeletsWithTheCertificateOfAFile(t *testing.T) {
	keys, err := pki.Open("", nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	client, err := keys.Client("caller", []string{"callers"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	o := millrace.KubeletOptions{CertFile: filepath.Join(t.TempDir(), "client.crt"), KeyFile: filepath.Join(t.TempDir(), "client.key"), AddressTypes: []string{"ExternalIP", "InternalIP"}}
	for path, text := range map[string][]byte{o.CertFile: client.CertPEM, o.KeyFile: client.KeyPEM} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	reachKubelet(t, millrace.ServingOptions{Kubelets: o}, corev1.NodeExternalIP, `caller of ["callers"]`)
}

// reachKubelet makes a cluster call a kubelet at the address of a type, who must see the wanted user.
func reachKubelet(t *testing.T, serving millrace.ServingOptions, at corev1.NodeAddressType, want string) {
	t.Helper()
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

	cluster, err := millrace.Start(t.Context(), millrace.Options{Controllers: []string{}, NoScheduler: true, Serving: serving})
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	k, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	addNodeWithPod(t, k, kubelet.Listener.Addr().String(), at)
	stream, err := k.CoreV1().Pods("default").GetLogs("pod", &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if got := <-caller; got != want {
		t.Errorf("%s calls, not %s", got, want)
	}
	if err := cluster.Close(); err != nil {
		t.Error(err)
	}
	<-left
}

// addNodeWithPod adds a node that answers at the address of one type alone.
func addNodeWithPod(t *testing.T, k *kubernetes.Clientset, address string, at corev1.NodeAddressType) {
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
	other := corev1.NodeInternalIP
	if at == other {
		other = corev1.NodeExternalIP
	}
	node.Status.Addresses = []corev1.NodeAddress{{Type: other, Address: "192.0.2.1"}, {Type: at, Address: host}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(number)
	if _, err := k.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}, Spec: corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "main", Image: "x"}}}}
	if _, err := k.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
