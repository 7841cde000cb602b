package endpoints_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/seam"
	"github.com/millrace/millrace/internal/server/endpoints"
	"github.com/millrace/millrace/internal/server/store"
)

// world is an API in virtual time, whose endpoints are maintained by the test's reconcilers.
type world struct {
	*testing.T
	cluster *millrace.Cluster
	store   store.Store
	kube    *kubernetes.Clientset
}

func inWorld(t *testing.T, do func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t}
		ctx := seam.Around(t.Context(), func(s store.Store) store.Store { w.store = s; return s })
		var err error
		if w.cluster, err = millrace.Start(ctx, millrace.Options{Listen: "none", Controllers: []string{}, NoScheduler: true}); err != nil {
			t.Fatal(err)
		}
		w.kube = kubernetes.NewForConfigOrDie(w.cluster.Config())
		do(w)
		if err := w.cluster.Close(); err != nil {
			t.Error(err)
		}
	})
}

// server starts a reconciler, and returns a function that shuts it down.
func (w *world) server(address string) (end func()) {
	w.Helper()
	r, err := endpoints.New(endpoints.Options{
		Address: netip.MustParseAddrPort(address), ServiceIP: netip.MustParseAddr("10.96.0.1"), Store: w.store, Config: w.cluster.Config(),
	})
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = r.Run(ctx) })
	return func() { cancel(); running.Wait() }
}

// after lets time pass, and then compares the addresses in Endpoints and EndpointSlice with want.
func (w *world) after(d time.Duration, want string) {
	w.Helper()
	time.Sleep(d)
	synctest.Wait()
	e, err := w.kube.CoreV1().Endpoints("default").Get(w.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	var all []string
	for _, s := range e.Subsets {
		for _, a := range s.Addresses {
			all = append(all, fmt.Sprint(a.IP, ":", s.Ports[0].Port))
		}
	}
	if got := strings.Join(all, " "); got != want {
		w.Errorf("after %v the endpoints are %q, want %q", d, got, want)
	}
	slice, err := w.kube.DiscoveryV1().EndpointSlices("default").Get(w.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	all = nil
	for _, a := range slice.Endpoints {
		all = append(all, fmt.Sprint(a.Addresses[0], ":", *slice.Ports[0].Port))
	}
	if got := strings.Join(all, " "); got != want {
		w.Errorf("after %v the slice holds %q, want %q", d, got, want)
	}
}

func TestServersAreAddedAndRemoved(t *testing.T) {
	inWorld(t, func(w *world) {
		first := w.server("10.1.0.1:6443")
		w.after(time.Second, "10.1.0.1:6443")
		second := w.server("10.1.0.2:6443")
		w.after(time.Second, "10.1.0.1:6443 10.1.0.2:6443")
		w.after(time.Hour, "10.1.0.1:6443 10.1.0.2:6443")
		first()
		w.after(0, "10.1.0.2:6443")
		second()
		w.after(0, "10.1.0.2:6443") // the last server leaves its address
		w.after(time.Hour, "10.1.0.2:6443")
		third := w.server("10.1.0.3:7443")
		w.after(time.Second, "10.1.0.3:7443")
		third()
	})
}

func TestACrashedServerIsRemovedWhenItsLeaseEnds(t *testing.T) {
	inWorld(t, func(w *world) {
		if _, err := w.store.Create(w.Context(), "/registry/masterleases/10.1.0.9", []byte("a kube-apiserver's"), 15*time.Second); err != nil {
			t.Fatal(err)
		}
		end := w.server("10.1.0.1:6443")
		w.after(12*time.Second, "10.1.0.1:6443 10.1.0.9:6443")
		w.after(15*time.Second, "10.1.0.1:6443")
		end()
	})
}

func TestChangedEndpointsAreRepaired(t *testing.T) {
	inWorld(t, func(w *world) {
		end := w.server("10.1.0.1:6443")
		w.after(time.Second, "10.1.0.1:6443")
		must := func(err error) {
			w.Helper()
			if err != nil {
				w.Fatal(err)
			}
		}
		must(w.kube.CoreV1().Endpoints("default").Delete(w.Context(), "kubernetes", metav1.DeleteOptions{}))
		must(w.kube.DiscoveryV1().EndpointSlices("default").Delete(w.Context(), "kubernetes", metav1.DeleteOptions{}))
		must(w.kube.CoreV1().Services("default").Delete(w.Context(), "kubernetes", metav1.DeleteOptions{}))
		w.after(11*time.Second, "10.1.0.1:6443")
		service, err := w.kube.CoreV1().Services("default").Get(w.Context(), "kubernetes", metav1.GetOptions{})
		must(err)
		if service.Spec.ClusterIP != "10.96.0.1" || service.Spec.Ports[0].TargetPort.IntValue() != 6443 {
			w.Errorf("the service is %v", service.Spec)
		}
		service.Spec.Ports[0].TargetPort.IntVal = 1
		_, err = w.kube.CoreV1().Services("default").Update(w.Context(), service, metav1.UpdateOptions{})
		must(err)
		e, err := w.kube.CoreV1().Endpoints("default").Get(w.Context(), "kubernetes", metav1.GetOptions{})
		must(err)
		e.Subsets[0].Addresses[0].IP = "10.1.0.77"
		_, err = w.kube.CoreV1().Endpoints("default").Update(w.Context(), e, metav1.UpdateOptions{})
		must(err)
		slice, err := w.kube.DiscoveryV1().EndpointSlices("default").Get(w.Context(), "kubernetes", metav1.GetOptions{})
		must(err)
		slice.Endpoints[0].Addresses[0] = "10.1.0.77"
		_, err = w.kube.DiscoveryV1().EndpointSlices("default").Update(w.Context(), slice, metav1.UpdateOptions{})
		must(err)
		w.after(11*time.Second, "10.1.0.1:6443")
		service, err = w.kube.CoreV1().Services("default").Get(w.Context(), "kubernetes", metav1.GetOptions{})
		must(err)
		if service.Spec.Ports[0].TargetPort.IntValue() != 6443 {
			w.Errorf("the service is %v", service.Spec)
		}
		end()
	})
}

func TestALeaseIsWhatAKubeAPIServerReads(t *testing.T) {
	inWorld(t, func(w *world) {
		end := w.server("10.1.0.1:6443")
		w.after(25*time.Second, "10.1.0.1:6443")
		entry, err := w.store.Get(w.Context(), "/registry/masterleases/10.1.0.1", store.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		o, _, err := scheme.Codecs.UniversalDeserializer().Decode(entry.Value, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := o.(*corev1.Endpoints); !ok || e.Subsets[0].Addresses[0].IP != "10.1.0.1" {
			t.Errorf("it is %v", o)
		}
		end()
	})
}

func TestAServerWithAnIPv6AddressHasASliceOfThatFamily(t *testing.T) {
	inWorld(t, func(w *world) {
		four := w.server("10.1.0.1:6443")
		w.after(time.Second, "10.1.0.1:6443")
		four()
		time.Sleep(time.Minute)
		six := w.server("[fd00::1]:6443")
		time.Sleep(time.Second)
		slice, err := w.kube.DiscoveryV1().EndpointSlices("default").Get(w.Context(), "kubernetes", metav1.GetOptions{})
		if err != nil || slice.AddressType != discoveryv1.AddressTypeIPv6 || slice.Endpoints[0].Addresses[0] != "fd00::1" {
			t.Errorf("the slice is %v (%v)", slice, err)
		}
		six()
	})
}
