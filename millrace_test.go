package millrace_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace"
)

// start starts a cluster that ends with the test.
func start(t testing.TB, o millrace.Options) *millrace.Cluster {
	t.Helper()
	c, err := millrace.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func clientset(t testing.TB, c *millrace.Cluster) *kubernetes.Clientset {
	t.Helper()
	k, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestNamespacesAndTheServiceExistAfterTheStart(t *testing.T) {
	k := clientset(t, start(t, millrace.Options{Controllers: []string{}}))
	for _, name := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
		if _, err := k.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}
	if _, err := k.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func TestPrivilegedContainersRunWhereTheyMay(t *testing.T) {
	for _, may := range []bool{false, true} {
		k := clientset(t, start(t, millrace.Options{Controllers: []string{}, NoScheduler: true, AllowPrivileged: may}))
		_, err := k.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p"},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "c", Image: "i", SecurityContext: &corev1.SecurityContext{Privileged: new(true)},
			}}},
		}, metav1.CreateOptions{})
		if (err == nil) != may {
			t.Errorf("where it is %v that they may, creating one gives %v", may, err)
		}
	}
}

func TestAHundredClustersSideBySideLeaveNothingBehind(t *testing.T) {
	before := goleak.IgnoreCurrent()
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			c, err := millrace.Start(t.Context(), millrace.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			k, err := kubernetes.NewForConfig(c.InProcess())
			if err != nil {
				t.Error(err)
				return
			}
			name := fmt.Sprintf("only-%d", i)
			if _, err := k.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
			list, err := k.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name!=kube-root-ca.crt"})
			if err != nil {
				t.Error(err)
			} else if len(list.Items) != 1 || list.Items[0].Name != name {
				t.Errorf("cluster %d sees %d config maps", i, len(list.Items))
			}
		})
	}
	wg.Wait()
	goleak.VerifyNone(t, before)
}

func TestCloseEndsOpenWatches(t *testing.T) {
	c, err := millrace.Start(t.Context(), millrace.Options{Data: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	w, err := clientset(t, c).CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for range w.ResultChan() {
		// It ends.
	}
}

func TestObjectsSurviveARestart(t *testing.T) {
	directory := t.TempDir()
	first, err := millrace.Start(t.Context(), millrace.Options{Data: directory, Controllers: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	made, err := clientset(t, first).CoreV1().ConfigMaps("default").Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}, Data: map[string]string{"a": "b"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := start(t, millrace.Options{Data: directory, Controllers: []string{}})
	found, err := clientset(t, second).CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if found.UID != made.UID || found.ResourceVersion != made.ResourceVersion || found.Data["a"] != "b" {
		t.Errorf("found %v, made %v", found, made)
	}
}

func TestASecondClusterOnTheSameDirectoryIsRefused(t *testing.T) {
	directory := t.TempDir()
	start(t, millrace.Options{Data: directory})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c, err := millrace.Start(ctx, millrace.Options{Data: directory})
	if err == nil {
		c.Close()
		t.Fatal("two clusters share a directory")
	}
}

// sliceOfTheAPI waits for the endpoints of the Service "kubernetes".
func sliceOfTheAPI(t *testing.T, c *millrace.Cluster) *discoveryv1.EndpointSlice {
	t.Helper()
	w, err := clientset(t, c).DiscoveryV1().EndpointSlices("default").Watch(t.Context(),
		metav1.ListOptions{SendInitialEvents: new(true), ResourceVersionMatch: "NotOlderThan", AllowWatchBookmarks: true, TimeoutSeconds: new(int64(60))})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if slice, ok := e.Object.(*discoveryv1.EndpointSlice); ok && e.Type == watch.Added {
			return slice
		}
	}
	t.Fatal("no slice was made")
	return nil
}

func TestTheAPIHasEndpointsWhereItIsAdvertised(t *testing.T) {
	c := start(t, millrace.Options{Controllers: []string{}, NoScheduler: true, Advertise: "10.1.2.3"})
	slice := sliceOfTheAPI(t, c)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(c.URL(), "https://"))
	if err != nil || slice.Endpoints[0].Addresses[0] != "10.1.2.3" || fmt.Sprint(*slice.Ports[0].Port) != port {
		t.Errorf("the slice is %v", slice)
	}
}

func TestAServerOnAllAddressesOrOnLoopbackHasEndpointsToo(t *testing.T) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	var reachable []string
	for _, a := range addresses {
		if p, err := netip.ParsePrefix(a.String()); err == nil && !p.Addr().IsLoopback() && !p.Addr().IsLinkLocalUnicast() {
			reachable = append(reachable, p.Addr().String())
		}
	}
	if len(reachable) == 0 {
		t.Skip("this machine has loopback addresses only")
	}
	for _, listen := range []string{"0.0.0.0:0", "127.0.0.1:0"} {
		c := start(t, millrace.Options{Controllers: []string{}, NoScheduler: true, Listen: listen})
		slice := sliceOfTheAPI(t, c)
		_, port, err := net.SplitHostPort(strings.TrimPrefix(c.URL(), "https://"))
		if err != nil || !slices.Contains(reachable, slice.Endpoints[0].Addresses[0]) || fmt.Sprint(*slice.Ports[0].Port) != port {
			t.Errorf("on %s the slice is %v", listen, slice)
		}
	}
}

func TestTheKeysOfTokensAreFoundWhereTheAPIIsAdvertised(t *testing.T) {
	c := start(t, millrace.Options{Controllers: []string{}, NoScheduler: true, Advertise: "10.1.2.3"})
	about, err := clientset(t, c).RESTClient().Get().AbsPath("/.well-known/openid-configuration").DoRaw(t.Context())
	if err != nil || !strings.Contains(string(about), `"jwks_uri":"https://10.1.2.3:`) {
		t.Errorf("%s, %v", about, err)
	}
}

func TestALoopbackAddressIsNotAdvertised(t *testing.T) {
	if c, err := millrace.Start(t.Context(), millrace.Options{Advertise: "127.0.0.1"}); err == nil {
		c.Close()
		t.Error("it is")
	}
}

func TestTheKubeconfigWorks(t *testing.T) {
	c := start(t, millrace.Options{})
	config, err := clientcmd.RESTConfigFromKubeConfig(c.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	k, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}
