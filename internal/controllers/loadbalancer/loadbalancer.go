// Package loadbalancer gives Services of the type LoadBalancer the addresses of the cluster's own nodes, where no cloud
// gives them others. What proxies the services must lead packets for a node's address as it does for any address of a
// load balancer.
//
// What is guaranteed: of the services that want one port, the one that has the addresses already keeps them, and else
// the oldest gets them; the others are told by an event who has the port, and get the addresses when it becomes free. A
// service whose external traffic stays on the node gets the nodes alone where it has endpoints. A service with a class
// of somebody else is left alone.
//
// What may not be assumed: that a port is free on the nodes. A service that asks for port 22 gets what was for the
// nodes' own SSH server; only the ports of [Options.Reserved] are refused.
package loadbalancer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

const (
	// Name is what the loop is selected by.
	Name = "service-lb-controller"
	// Class is what services may name as the class of their load balancer to get nodes' addresses. Those that name none
	// get them too.
	Class = "millrace.dev/node"
)

// Options of the loop. The zero value works.
type Options struct {
	// Reserved are ports that no service gets: those of the API server and of kubelets.
	Reserved []int32
}

// Entry is this loop among the others.
func (o Options) Entry() loop.Entry {
	return loop.Entry{
		Name: Name, Aliases: []string{"service-lb"}, Source: "service-controller", OffByDefault: true,
		New: func(c *loop.Clients) (loop.Runner, error) { return New(c, o) },
	}
}

// balanced are the services of the type.
var balanced = informer.NewIndex(func(s *corev1.Service) []string {
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer {
		return []string{""}
	}
	return nil
})

var ofService = informer.NewIndex(func(s *discoveryv1.EndpointSlice) []string {
	return []string{s.Namespace + "/" + s.Labels[discoveryv1.LabelServiceName]}
})

type controller struct {
	options  Options
	kube     kubernetes.Interface
	recorder loop.Recorder
	services *informer.Shared[*corev1.Service]
	nodes    *informer.Shared[*corev1.Node]
	slices   *informer.Shared[*discoveryv1.EndpointSlice]
	told     map[types.UID]string // why services have no addresses, as their users know
}

// New makes the loop. It has one key: who gets which port is decided for all services together.
func New(c *loop.Clients, o Options) (loop.Runner, error) {
	r := &controller{
		options: o, kube: c.Kube, recorder: c.Recorder, told: make(map[types.UID]string),
		services: loop.Informer(c, informer.For(c.Kube.CoreV1().Services(""))),
		nodes:    loop.Informer(c, informer.For(c.Kube.CoreV1().Nodes())),
		slices:   loop.Informer(c, informer.For(c.Kube.DiscoveryV1().EndpointSlices(""))),
	}
	r.services.AddIndex(balanced)
	r.slices.AddIndex(ofService)
	all := loop.Key{Name: "all"}
	return &loop.Loop{
		Name: Name, Clients: c, Start: []loop.Key{all}, Sync: r.sync,
		Watches: []loop.Watch{
			loop.Changes(r.services, func(before, after *corev1.Service) []loop.Key { return only(all, ours(before) || ours(after)) }),
			loop.Changes(r.nodes, func(before, after *corev1.Node) []loop.Key {
				return only(all, !equality.Semantic.DeepEqual(nodeViewOf(before), nodeViewOf(after)))
			}),
			loop.Mapped(r.slices, func(s *discoveryv1.EndpointSlice) []loop.Key {
				service, ok := r.services.Get(s.Namespace, s.Labels[discoveryv1.LabelServiceName])
				return only(all, ok && ours(service) && staysLocal(service))
			}),
		},
	}, nil
}

func only(key loop.Key, when bool) []loop.Key {
	if when {
		return []loop.Key{key}
	}
	return nil
}

// ours says whether a service gets its addresses here.
func ours(s *corev1.Service) bool {
	return s != nil && s.Spec.Type == corev1.ServiceTypeLoadBalancer && (s.Spec.LoadBalancerClass == nil || *s.Spec.LoadBalancerClass == Class)
}

func staysLocal(s *corev1.Service) bool {
	return s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// front is what only one service can have.
type front struct {
	protocol corev1.Protocol
	port     int32
}

func (f front) String() string { return fmt.Sprintf("%d/%s", f.port, f.protocol) }

func (r *controller) sync(ctx context.Context, key loop.Key) (loop.Result, error) {
	var all []*corev1.Service
	for s := range r.services.By(balanced, "") {
		if ours(s) && s.DeletionTimestamp == nil {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, comesFirst)
	nodes := r.nodeViews()
	owners := make(map[front]string)
	for _, port := range r.options.Reserved {
		owners[front{corev1.ProtocolTCP, port}] = "the cluster itself"
	}
	var errs []error
	told := make(map[types.UID]string)
	for _, s := range all {
		want, why := r.ingress(s, nodes), take(owners, s)
		if why != "" {
			want = nil
		}
		if told[s.UID] = why; why != "" && r.told[s.UID] != why {
			r.recorder.Eventf(s, corev1.EventTypeWarning, "SyncLoadBalancerFailed", "Error syncing load balancer: failed to ensure load balancer: %s", why)
		}
		errs = append(errs, r.set(ctx, key, s, want))
	}
	r.told = told
	return loop.Result{}, errors.Join(errs...)
}

// comesFirst puts services first that have addresses, and older ones before others.
func comesFirst(a, b *corev1.Service) int {
	hasA, hasB := len(a.Status.LoadBalancer.Ingress) > 0, len(b.Status.LoadBalancer.Ingress) > 0
	switch {
	case hasA && !hasB:
		return -1
	case hasB && !hasA:
		return 1
	}
	if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
		return c
	}
	return informer.KeyOf(a).Compare(informer.KeyOf(b))
}

// take notes that the ports are those of a service. If another one has one of them, it returns who.
func take(owners map[front]string, s *corev1.Service) string {
	for _, p := range s.Spec.Ports {
		f := front{p.Protocol, p.Port}
		if owner, taken := owners[f]; taken {
			return fmt.Sprintf("port %v of the nodes is used by %s", f, owner)
		}
	}
	for _, p := range s.Spec.Ports {
		owners[front{p.Protocol, p.Port}] = fmt.Sprintf("service %s/%s", s.Namespace, s.Name)
	}
	return ""
}

// set writes the addresses of a service, and tells its users.
func (r *controller) set(ctx context.Context, key loop.Key, s *corev1.Service, want []corev1.LoadBalancerIngress) error {
	if equality.Semantic.DeepEqual(s.Status.LoadBalancer.Ingress, want) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": s.UID, "resourceVersion": s.ResourceVersion},
		"status":   map[string]any{"loadBalancer": map[string]any{"ingress": want}},
	})
	if err != nil {
		return fmt.Errorf("encode the addresses of service %s/%s: %w", s.Namespace, s.Name, err)
	}
	now, err := r.kube.CoreV1().Services(s.Namespace).Patch(ctx, s.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("write the addresses of service %s/%s: %w", s.Namespace, s.Name, err)
	}
	loop.Wrote(ctx, r.services, now.ResourceVersion)
	if len(want) > 0 && len(s.Status.LoadBalancer.Ingress) == 0 {
		r.recorder.Eventf(s, corev1.EventTypeNormal, "EnsuredLoadBalancer", "Ensured load balancer")
	}
	return nil
}
