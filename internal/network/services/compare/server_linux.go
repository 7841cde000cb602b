package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	nodeName    = "here"
	nodeAddress = "10.0.0.1"
	podRange    = "10.128.0.0/9"
	namespace   = "default"
)

// server is an API server of this project in its own process, with its own directory.
type server struct {
	process   *exec.Cmd
	directory string
	kube      *kubernetes.Clientset
}

func startServer(ctx context.Context, command string) (*server, error) {
	directory, err := os.MkdirTemp("", "compare-proxies-")
	if err != nil {
		return nil, err
	}
	s := &server{directory: directory}
	s.process = exec.Command(command, "apiserver", "--data", directory, "--kubeconfig", s.kubeconfig(), "--storage-backend", "memory",
		"--bind-address", "127.0.0.1", "--secure-port", "0")
	s.process.Stderr, s.process.SysProcAttr = os.Stderr, dieWithParent()
	if err := s.process.Start(); err != nil {
		_ = os.RemoveAll(directory)
		return nil, err
	}
	if err := s.connect(ctx); err != nil {
		s.stop()
		return nil, fmt.Errorf("the API server does not serve: %w", err)
	}
	return s, nil
}

func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

func (s *server) kubeconfig() string { return filepath.Join(s.directory, "kubeconfig") }

// connect waits until the server serves.
func (s *server) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig())
		if err == nil {
			config.QPS, config.ContentType = -1, "application/vnd.kubernetes.protobuf"
			if s.kube, err = kubernetes.NewForConfig(config); err == nil {
				err = s.kube.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
			}
		}
		if err == nil {
			return nil
		}
		if pause(ctx, 100*time.Millisecond) != nil {
			return err
		}
	}
}

func (s *server) stop() {
	_ = s.process.Process.Signal(os.Interrupt)
	_ = s.process.Wait() // the error is that it was interrupted
	_ = os.RemoveAll(s.directory)
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// fill creates the node, the services and their endpoints.
func (s *server) fill(ctx context.Context, o options) error {
	_, err := s.kube.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}, Status: corev1.NodeStatus{
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nodeAddress}, {Type: corev1.NodeHostName, Address: nodeName}},
	}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(32)
	for i := range o.services {
		group.Go(func() error {
			service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: serviceName(i)}, Spec: corev1.ServiceSpec{
				Ports: []corev1.ServicePort{{Name: "http", Port: 80}},
			}}
			if _, err := s.kube.CoreV1().Services(namespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
				return err
			}
			_, err := s.kube.DiscoveryV1().EndpointSlices(namespace).Create(ctx, slice(i, o.endpoints), metav1.CreateOptions{})
			return err
		})
	}
	return group.Wait()
}

// restore gives each service all its endpoints again, so that each contender finds the same and has the same to change.
func (s *server) restore(ctx context.Context, o options) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(32)
	for i := range o.services {
		group.Go(func() error {
			_, err := s.kube.DiscoveryV1().EndpointSlices(namespace).Update(ctx, slice(i, o.endpoints), metav1.UpdateOptions{})
			return err
		})
	}
	return group.Wait()
}

func serviceName(i int) string { return fmt.Sprintf("web-%05d", i) }

// slice returns a service's slice with so many endpoints.
func slice(i, endpoints int) *discoveryv1.EndpointSlice {
	name, port, protocol, ready, node := "http", int32(8080), corev1.ProtocolTCP, true, "elsewhere"
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: serviceName(i) + "-1", Labels: map[string]string{
			discoveryv1.LabelServiceName: serviceName(i), discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io",
		}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}},
	}
	for j := range endpoints {
		n := i*endpoints + j + 1
		address := netip.AddrFrom4([4]byte{10, 128 | byte(n>>16), byte(n >> 8), byte(n)})
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address.String()}, NodeName: &node,
			Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &ready},
		})
	}
	return s
}
