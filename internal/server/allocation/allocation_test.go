package allocation_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/store"
)

const v4, v6 = "10.0.0.0/24", "fd00::/112"

func TestServiceGetsAnAddressThatAnIPAddressNames(t *testing.T) {
	w := newServer(t, newStore(t), v4)
	svc := w.create(service("web"))
	a, err := netip.ParseAddr(svc.Spec.ClusterIP)
	if err != nil || !netip.MustParsePrefix(v4).Contains(a) {
		t.Fatalf("address %q", svc.Spec.ClusterIP)
	}
	if !slices.Equal(svc.Spec.ClusterIPs, []string{svc.Spec.ClusterIP}) || !slices.Equal(svc.Spec.IPFamilies, []corev1.IPFamily{corev1.IPv4Protocol}) ||
		*svc.Spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack {
		t.Fatalf("%+v", svc.Spec)
	}
	if got := w.claims()[svc.Spec.ClusterIP]; got != "web" {
		t.Fatalf("address is claimed for %q", got)
	}
	o, err := w.storage(ipAddresses).Get(t.Context(), "", svc.Spec.ClusterIP, registry.Freshness{})
	if err != nil {
		t.Fatal(err)
	}
	if f, _ := o.Labels.Lookup(networkingv1.LabelIPAddressFamily); f != "IPv4" {
		t.Fatalf("family label %q", f)
	}
	if m, _ := o.Labels.Lookup(networkingv1.LabelManagedBy); m != "ipallocator.k8s.io" {
		t.Fatalf("manager label %q", m)
	}
	w.delete(services, "default", "web")
	if got := w.claims(); len(got) != 0 {
		t.Fatalf("still claimed: %v", got)
	}
}

func TestOwnRangeIsAServiceCIDRThatIsReady(t *testing.T) {
	w := newServer(t, newStore(t), v4)
	s := w.storage(cidrs)
	o, err := s.Get(t.Context(), "", "kubernetes", registry.Freshness{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := s.Kind().Decode(t.Context(), o.Value(), "")
	if err != nil {
		t.Fatal(err)
	}
	c := d.(*networkingv1.ServiceCIDR)
	if !slices.Equal(c.Spec.CIDRs, []string{v4}) || len(c.Status.Conditions) != 1 || c.Status.Conditions[0].Type != "Ready" || c.Status.Conditions[0].Status != "True" {
		t.Fatalf("%+v", c)
	}
}

func TestNewServices(t *testing.T) {
	policy := func(p corev1.IPFamilyPolicy) func(*corev1.ServiceSpec) {
		return func(s *corev1.ServiceSpec) { s.IPFamilyPolicy = &p }
	}
	families := func(f ...corev1.IPFamily) func(*corev1.ServiceSpec) {
		return func(s *corev1.ServiceSpec) { s.IPFamilies = f }
	}
	addresses := func(ips ...string) func(*corev1.ServiceSpec) {
		return func(s *corev1.ServiceSpec) { s.ClusterIP, s.ClusterIPs = ips[0], ips }
	}
	headless := addresses("None")
	noSelector := func(s *corev1.ServiceSpec) { s.Selector = nil }
	single, prefer, require := corev1.IPFamilyPolicySingleStack, corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack
	four, six := corev1.IPv4Protocol, corev1.IPv6Protocol
	for _, c := range []struct {
		name     string
		ranges   []string
		spec     []func(*corev1.ServiceSpec)
		families string // the expected families
		policy   corev1.IPFamilyPolicy
		n        int // addresses
		err      string
	}{
		{"plain", []string{v4}, nil, "IPv4", single, 1, ""},
		{"plain on two families", []string{v4, v6}, nil, "IPv4", single, 1, ""},
		{"default family is the first", []string{v6, v4}, nil, "IPv6", single, 1, ""},
		{"prefers two, has one", []string{v4}, []func(*corev1.ServiceSpec){policy(prefer)}, "IPv4", prefer, 1, ""},
		{"prefers two, has two", []string{v4, v6}, []func(*corev1.ServiceSpec){policy(prefer)}, "IPv4 IPv6", prefer, 2, ""},
		{"requires two, other first", []string{v4, v6}, []func(*corev1.ServiceSpec){policy(require), families(six)}, "IPv6 IPv4", require, 2, ""},
		{"requires two, has one", []string{v4}, []func(*corev1.ServiceSpec){policy(require)}, "", "", 0,
			`spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services`},
		{"other family", []string{v4}, []func(*corev1.ServiceSpec){families(six)}, "", "", 0, `spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster`},
		{"address of other family", []string{v4}, []func(*corev1.ServiceSpec){addresses("fd00::5")}, "", "", 0,
			`spec.clusterIPs[0]: Invalid value: ["fd00::5"]: IPv6 is not configured on this cluster`},
		{"two families of one stack", []string{v4, v6}, []func(*corev1.ServiceSpec){families(four, six), policy(single)}, "", "", 0,
			`spec.ipFamilyPolicy: Invalid value: "SingleStack": must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified`},
		{"own address", []string{v4}, []func(*corev1.ServiceSpec){addresses("10.0.0.200")}, "IPv4", single, 1, ""},
		{"address elsewhere", []string{v4}, []func(*corev1.ServiceSpec){addresses("10.0.1.1")}, "", "", 0,
			`spec.clusterIPs: Invalid value: ["10.0.1.1"]: failed to allocate IP 10.0.1.1: the provided network does not match the current range`},
		{"address of the network", []string{v4}, []func(*corev1.ServiceSpec){addresses("10.0.0.0")}, "", "", 0,
			`spec.clusterIPs: Invalid value: ["10.0.0.0"]: failed to allocate IP 10.0.0.0: the provided IP (10.0.0.0) is not in the valid range. The range of valid IPs is 10.0.0.0/24`},
		{"no address", []string{v4}, []func(*corev1.ServiceSpec){addresses("10.0.0.999")}, "", "", 0, `spec.clusterIPs[0]: Invalid value: "10.0.0.999"`},
		{"headless", []string{v4}, []func(*corev1.ServiceSpec){headless}, "IPv4", single, 0, ""},
		{"headless without selector", []string{v4}, []func(*corev1.ServiceSpec){headless, noSelector}, "IPv4 IPv6", require, 0, ""},
		{"external name", []string{v4}, []func(*corev1.ServiceSpec){ofType(corev1.ServiceTypeExternalName), func(s *corev1.ServiceSpec) { s.ExternalName = "a.example" }}, "", "", 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newServer(t, newStore(t), c.ranges...)
			svc, err := w.tryCreate(service("web", c.spec...), registry.WriteOptions{})
			if c.err != "" {
				if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range svc.Spec.IPFamilies {
				got = append(got, string(f))
			}
			if strings.Join(got, " ") != c.families {
				t.Errorf("families %v", got)
			}
			if (svc.Spec.IPFamilyPolicy == nil) != (c.policy == "") || c.policy != "" && *svc.Spec.IPFamilyPolicy != c.policy {
				t.Errorf("policy %v", svc.Spec.IPFamilyPolicy)
			}
			if len(w.claims()) != c.n {
				t.Errorf("claims %v", w.claims())
			}
		})
	}
}

func TestTakenAddressesAndPortsAreRefused(t *testing.T) {
	w := newServer(t, newStore(t), v4)
	address := func(s *corev1.ServiceSpec) { s.ClusterIP = "10.0.0.7" }
	port := func(s *corev1.ServiceSpec) { s.Type, s.Ports[0].NodePort = corev1.ServiceTypeNodePort, 30007 }
	w.create(service("first", address, port))
	for _, c := range []struct {
		what func(*corev1.ServiceSpec)
		want string
	}{
		{address, `spec.clusterIPs: Invalid value: ["10.0.0.7"]: failed to allocate IP 10.0.0.7: provided IP is already allocated`},
		{port, `spec.ports[0].nodePort: Invalid value: 30007: provided port is already allocated`},
		{func(s *corev1.ServiceSpec) { s.Type, s.Ports[0].NodePort = corev1.ServiceTypeNodePort, 80 },
			`spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767`},
	} {
		_, err := w.tryCreate(service("second", c.what), registry.WriteOptions{})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
	if len(w.claims()) != 1 {
		t.Errorf("what was refused has kept something: %v", w.claims())
	}
}

func TestRefusedServiceReleasesWhatItAllocated(t *testing.T) {
	w := newServer(t, newStore(t), v4)
	bad := service("web", func(s *corev1.ServiceSpec) {
		s.Type, s.Ports[0].NodePort, s.SessionAffinity = corev1.ServiceTypeNodePort, 30100, "Sometimes"
	})
	if _, err := w.tryCreate(bad, registry.WriteOptions{}); !apierrors.IsInvalid(err) {
		t.Fatal(err)
	}
	if len(w.claims()) != 0 || w.taken(30100) {
		t.Fatalf("claims %v, port taken: %v", w.claims(), w.taken(30100))
	}
	w.create(service("web"))
	if _, err := w.tryCreate(service("web"), registry.WriteOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	if len(w.claims()) != 1 {
		t.Fatalf("claims %v", w.claims())
	}
}

func TestDryRunAllocatesNothing(t *testing.T) {
	w := newServer(t, newStore(t), v4)
	w.create(service("first", ofType(corev1.ServiceTypeNodePort)))
	svc, err := w.tryCreate(service("web", ofType(corev1.ServiceTypeNodePort)), registry.WriteOptions{DryRun: true})
	if err != nil {
		t.Fatal(err)
	}
	if svc.Spec.ClusterIP == "" || svc.Spec.Ports[0].NodePort == 0 {
		t.Fatalf("%+v", svc.Spec)
	}
	if len(w.claims()) != 1 || w.taken(svc.Spec.Ports[0].NodePort) {
		t.Fatalf("claims %v", w.claims())
	}
	elsewhere := service("web", func(s *corev1.ServiceSpec) { s.Type, s.Ports[0].NodePort = corev1.ServiceTypeNodePort, 80 })
	if _, err := w.tryCreate(elsewhere, registry.WriteOptions{DryRun: true}); err != nil {
		t.Fatal(err)
	}
}

func TestChangeOfTypeAllocatesAndReleases(t *testing.T) {
	w := newServer(t, newStore(t), v4)
	svc := w.create(service("web", ofType(corev1.ServiceTypeNodePort)))
	port, address := svc.Spec.Ports[0].NodePort, svc.Spec.ClusterIP
	if !w.taken(port) {
		t.Fatalf("port %d is not taken", port)
	}
	svc = w.update("web", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
	if svc.Spec.ClusterIP != address || svc.Spec.Ports[0].NodePort != 0 || w.taken(port) {
		t.Fatalf("%+v", svc.Spec)
	}
	svc = w.update("web", func(s *corev1.Service) {
		s.Spec.Type, s.Spec.ExternalTrafficPolicy = corev1.ServiceTypeLoadBalancer, corev1.ServiceExternalTrafficPolicyLocal
	})
	port, health := svc.Spec.Ports[0].NodePort, svc.Spec.HealthCheckNodePort
	if port == 0 || health == 0 || port == health || !w.taken(port) || !w.taken(health) {
		t.Fatalf("%+v", svc.Spec)
	}
	svc = w.update("web", func(s *corev1.Service) {
		s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, "a.example"
	})
	if svc.Spec.ClusterIP != "" || svc.Spec.Ports[0].NodePort != 0 || w.taken(port) || w.taken(health) || len(w.claims()) != 0 {
		t.Fatalf("%+v, claims %v", svc.Spec, w.claims())
	}
	svc = w.update("web", func(s *corev1.Service) { s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeClusterIP, "" })
	if w.claims()[svc.Spec.ClusterIP] != "web" {
		t.Fatalf("%+v, claims %v", svc.Spec, w.claims())
	}
}

func TestSecondFamilyCanBeAddedAndRemoved(t *testing.T) {
	w := newServer(t, newStore(t), v4, v6)
	first := w.create(service("web")).Spec.ClusterIP
	policy := func(p corev1.IPFamilyPolicy) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.IPFamilyPolicy = &p }
	}
	svc := w.update("web", policy(corev1.IPFamilyPolicyRequireDualStack))
	if len(svc.Spec.ClusterIPs) != 2 || svc.Spec.ClusterIPs[0] != first || len(w.claims()) != 2 {
		t.Fatalf("%+v, claims %v", svc.Spec, w.claims())
	}
	svc = w.update("web", policy(corev1.IPFamilyPolicySingleStack))
	if !slices.Equal(svc.Spec.ClusterIPs, []string{first}) || len(svc.Spec.IPFamilies) != 1 || len(w.claims()) != 1 {
		t.Fatalf("%+v, claims %v", svc.Spec, w.claims())
	}
}

func TestOnePortOnTwoProtocolsSharesItsNodePort(t *testing.T) {
	w := newServer(t, newStore(t), v4)
	svc := w.create(service("dns", func(s *corev1.ServiceSpec) {
		s.Type = corev1.ServiceTypeNodePort
		s.Ports = []corev1.ServicePort{{Name: "tcp", Port: 53, Protocol: corev1.ProtocolTCP}, {Name: "udp", Port: 53, Protocol: corev1.ProtocolUDP}}
	}))
	if a, b := svc.Spec.Ports[0].NodePort, svc.Spec.Ports[1].NodePort; a == 0 || a != b {
		t.Fatalf("%d, %d", a, b)
	}
}

func TestLoadBalancerMayDoWithoutNodePorts(t *testing.T) {
	w := newServer(t, newStore(t), v4)
	svc := w.create(service("web", func(s *corev1.ServiceSpec) {
		s.Type, s.AllocateLoadBalancerNodePorts = corev1.ServiceTypeLoadBalancer, new(bool)
	}))
	if svc.Spec.Ports[0].NodePort != 0 {
		t.Fatalf("%+v", svc.Spec)
	}
}

func TestManyServersAllocateNothingTwice(t *testing.T) {
	s := newStore(t)
	servers := []*server{newServer(t, s, "10.0.0.0/22"), newServer(t, s, "10.0.0.0/22")}
	const n = 500
	all := make([]*corev1.Service, n)
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() {
			svc, err := servers[i%2].tryCreate(service(fmt.Sprintf("s%d", i), ofType(corev1.ServiceTypeNodePort)), registry.WriteOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			all[i] = svc
		})
	}
	running.Wait()
	if t.Failed() {
		return
	}
	addresses, ports := map[string]string{}, map[int32]string{}
	for _, svc := range all {
		address, port := svc.Spec.ClusterIP, svc.Spec.Ports[0].NodePort
		if addresses[address] != "" || ports[port] != "" {
			t.Fatalf("%s at %s:%d meets %q and %q", svc.Name, address, port, addresses[address], ports[port])
		}
		addresses[address], ports[port] = svc.Name, svc.Name
		if !servers[0].taken(port) {
			t.Fatalf("port %d of %s is not taken", port, svc.Name)
		}
	}
	if len(servers[1].claims()) != n {
		t.Fatalf("%d claims", len(servers[1].claims()))
	}
}

func TestFullRangeIsAnError(t *testing.T) {
	w := newServer(t, newStore(t), "10.0.0.0/29") // with six usable addresses
	for i := range 6 {
		w.create(service(fmt.Sprintf("s%d", i)))
	}
	_, err := w.tryCreate(service("one-more"), registry.WriteOptions{})
	if !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "failed to allocate a serviceIP: range is full") {
		t.Fatal(err)
	}
	w.delete(services, "default", "s3")
	w.create(service("one-more"))
}

func TestLostClaimsAreRestoredAndOrphansReleased(t *testing.T) {
	s := newStore(t)
	w := newServer(t, s, v4)
	svc := w.create(service("web", ofType(corev1.ServiceTypeNodePort)))
	w.delete(ipAddresses, "", svc.Spec.ClusterIP)
	// What a server leaves behind that crashed between the claim and the service, or between the service and the
	// release.
	gone := w.create(service("gone", ofType(corev1.ServiceTypeNodePort)))
	e, err := s.Get(t.Context(), "/registry/services/specs/default/gone", store.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Delete(t.Context(), e.Key, e.Revision); err != nil {
		t.Fatal(err)
	}
	if err := w.alloc.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c := w.claims(); c[svc.Spec.ClusterIP] != "web" || c[gone.Spec.ClusterIP] != "gone" {
		t.Fatalf("claims %v", c) // the second may still be on its way
	}
	w.now = w.now.Add(2 * time.Minute)
	if err := w.alloc.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c := w.claims(); len(c) != 1 || c[svc.Spec.ClusterIP] != "web" {
		t.Fatalf("claims %v", c)
	}
	if !w.taken(svc.Spec.Ports[0].NodePort) {
		t.Fatal("the port of a service was released")
	}
}

func TestTheAPIServersServiceMayAlreadyBeClaimed(t *testing.T) {
	s := newStore(t)
	a, b := newServer(t, s, v4), newServer(t, s, v4)
	own := func(s *corev1.ServiceSpec) { s.ClusterIP = "10.0.0.1" }
	a.create(service("kubernetes", own))
	if _, err := b.tryCreate(service("kubernetes", own), registry.WriteOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	if a.claims()["10.0.0.1"] != "kubernetes" {
		t.Fatalf("claims %v", a.claims())
	}
}
