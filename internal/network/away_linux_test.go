package network_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/network/internal/nettest"
	"github.com/millrace/millrace/internal/network/nft"
	"github.com/millrace/millrace/internal/network/pods"
	"github.com/millrace/millrace/internal/network/services"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/millracetest"
)

// Rules and routes stay as they are for ten minutes without the API, and what somebody removes comes back. Afterwards
// the changes of meanwhile are there, and nothing else has been written.
func TestTenMinutesWithoutTheAPI(t *testing.T) {
	here := nettest.New(t)
	nettest.Join(here, "eth0", []string{"10.0.0.1/24"}, nettest.New(t), "eth0", []string{"10.0.0.2/24"})
	synctest.Test(t, func(t *testing.T) {
		config := millracetest.API(t)
		kube, err := kubernetes.NewForConfig(config)
		must(t, err)
		var way nettest.Outage
		ours := rest.CopyConfig(config)
		ours.Wrap(way.Wrap)
		clients, err := loop.NewClients(ours, nil)
		must(t, err)
		proxy, err := services.New(services.Options{Clients: clients, Node: "here"})
		must(t, err)
		directory := t.TempDir()
		agent, err := pods.New(pods.Options{Clients: clients, Node: "here", ConfigurationDirectory: directory + "/net.d", PluginDirectory: directory + "/bin", Directory: directory, Program: os.Args[0]})
		must(t, err)
		w := world{kube: kube}
		w.node(t, "here", 1)
		w.node(t, "near", 2)
		w.service(t, "web", 80)
		w.slice(t, "web", "10.244.1.2", "10.244.2.2")

		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 3)
		go func() { ended <- clients.Run(ctx) }()
		for _, r := range []loop.Runner{proxy, agent} {
			go func() { ended <- here.Try(func() error { return r.Run(ctx) }) }()
		}
		defer func() {
			stop()
			for range cap(ended) {
				must(t, <-ended)
			}
		}()
		expect := func(routes, endpoints string) {
			t.Helper()
			synctest.Wait()
			if gotRoutes, gotEndpoints := state(t, here); gotRoutes != routes || gotEndpoints != endpoints {
				t.Errorf("there are routes to %s and %s endpoints, want %s and %s", gotRoutes, gotEndpoints, routes, endpoints)
			}
		}
		time.Sleep(time.Minute)
		expect("10.244.2.0/24", "2")

		way.Begin()
		w.node(t, "new", 3)
		must(t, kube.CoreV1().Nodes().Delete(t.Context(), "near", metav1.DeleteOptions{}))
		w.slice(t, "web", "10.244.1.2", "10.244.1.3", "10.244.3.2")
		for minute := range 10 {
			before := generation(t, here)
			time.Sleep(time.Minute)
			expect("10.244.2.0/24", "2")
			if after := generation(t, here); after != before {
				t.Errorf("the tables were written in minute %d", minute)
			}
		}
		here.Do(services.Remove)
		time.Sleep(10 * time.Second)
		expect("10.244.2.0/24", "2")

		way.End()
		time.Sleep(2 * time.Minute) // the longest pause between two tries to reach the server
		expect("10.244.3.0/24", "3")
		if n := way.Writes(); n != 0 {
			t.Errorf("the proxy and the agent sent %d writes to the API", n)
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// state returns the ranges of other nodes to which there are routes, and how many endpoints the proxy's table has.
func state(t *testing.T, in *nettest.Namespace) (routes, endpoints string) {
	t.Helper()
	in.Do(func() error {
		all, err := netlink.RouteList(nil, netlink.FAMILY_V4)
		if err != nil {
			return err
		}
		found := map[string]bool{}
		for _, r := range all {
			if r.Dst != nil && strings.HasPrefix(r.Dst.String(), "10.244.") && r.Gw != nil {
				found[r.Dst.String()] = true
			}
		}
		routes = strings.Join(slices.Sorted(maps.Keys(found)), " ")
		conn, err := nft.Dial()
		if err != nil {
			return err
		}
		defer conn.Close()
		elements, err := conn.Elements(nft.Table{Family: nft.IPv4, Name: "millrace-services"}, "endpoints")
		endpoints = fmt.Sprint(len(elements))
		return err
	})
	return routes, endpoints
}

// generation counts the writes to nf_tables.
func generation(t *testing.T, in *nettest.Namespace) (n uint32) {
	t.Helper()
	in.Do(func() error {
		conn, err := nft.Dial()
		if err != nil {
			return err
		}
		defer conn.Close()
		n, err = conn.Generation()
		return err
	})
	return n
}

// world writes to the API what others write.
type world struct{ kube kubernetes.Interface }

func (w world) node(t *testing.T, name string, number int) {
	t.Helper()
	pods := fmt.Sprintf("10.244.%d.0/24", number)
	n, err := w.kube.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDR: pods, PodCIDRs: []string{pods}}}, metav1.CreateOptions{})
	must(t, err)
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.0.0.%d", number)}}
	_, err = w.kube.CoreV1().Nodes().UpdateStatus(t.Context(), n, metav1.UpdateOptions{})
	must(t, err)
}

func (w world) service(t *testing.T, name string, port int32) {
	t.Helper()
	_, err := w.kube.CoreV1().Services("default").Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
		Ports: []corev1.ServicePort{{Name: "p", Port: port}},
	}}, metav1.CreateOptions{})
	must(t, err)
}

// slice creates or replaces a service's slice.
func (w world) slice(t *testing.T, service string, addresses ...string) {
	t.Helper()
	name, port, tcp := "p", int32(8080), corev1.ProtocolTCP
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &tcp}},
	}
	for _, a := range addresses {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
	}
	client := w.kube.DiscoveryV1().EndpointSlices("default")
	if _, err := client.Update(t.Context(), s, metav1.UpdateOptions{}); err == nil {
		return
	}
	_, err := client.Create(t.Context(), s, metav1.CreateOptions{})
	must(t, err)
}
