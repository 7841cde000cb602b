package credentials_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/kubelet/credentials"
	"github.com/millrace/millrace/internal/kubelet/hollow"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/millracetest"
	"github.com/millrace/millrace/watch"
)

const (
	id, secret = "abcdef", "0123456789abcdef"
	joiners    = "system:bootstrappers:kubeadm:default-node-token"
)

func start(t *testing.T) (*millrace.Cluster, *kubernetes.Clientset) {
	cluster := millracetest.Start(t, millrace.Options{})
	return cluster, millracetest.Clientset(t, cluster)
}

// token makes a bootstrap token, with data added to its Secret.
func token(t *testing.T, kube kubernetes.Interface, data map[string]string) {
	t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + id, Namespace: "kube-system"}, Type: corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			"token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true", "auth-extra-groups": joiners,
		}}
	for k, v := range data {
		s.StringData[k] = v
	}
	if _, err := kube.CoreV1().Secrets("kube-system").Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// bearing returns a configuration with only a token.
func bearing(c *millrace.Cluster, token string) *rest.Config {
	admin := c.Config()
	return &rest.Config{Host: admin.Host, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: admin.CAData}}
}

// until waits until an object satisfies ok.
func until[T informer.Object](t *testing.T, source informer.Source[T], name string, ok func(T) bool) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := source.Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()})
	if err != nil {
		t.Fatal(err)
	}
	last, err := watch.Until(ctx, stream, func(e watch.Event[T]) (bool, error) { return ok(e.Object), nil })
	if err != nil {
		t.Fatalf("%v; last seen: %+v", err, last.Object)
	}
	return last.Object
}

func TestANodeJoinsWithNothingButABootstrapToken(t *testing.T) {
	cluster, kube := start(t)
	token(t, kube, nil)
	directory := t.TempDir()
	identity, err := credentials.NewClient(credentials.ClientOptions{Bootstrap: bearing(cluster, id+"."+secret), Node: "hollow-0", Directory: directory})
	if err != nil {
		t.Fatal(err)
	}
	defer identity.Close()
	if err := identity.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	leaf := identity.Certificate().Leaf
	if leaf.Subject.CommonName != "system:node:hollow-0" || strings.Join(leaf.Subject.Organization, ",") != "system:nodes" {
		t.Errorf("the certificate is for %v", leaf.Subject)
	}
	if info, err := os.Stat(filepath.Join(directory, "kubelet-client-current.pem")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v (%v)", info, err)
	}
	clients, err := loop.NewClients(identity.Config(), nil)
	if err != nil {
		t.Fatal(err)
	}
	node, err := hollow.New(hollow.Options{Clients: clients, Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- loop.Run(ctx, clients, node, identity) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	until(t, informer.For(kube.CoreV1().Nodes()), "hollow-0", func(n *corev1.Node) bool {
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return true
			}
		}
		return false
	})
	again, err := credentials.NewClient(credentials.ClientOptions{Bootstrap: bearing(cluster, "used.up"), Node: "hollow-0", Directory: directory})
	if err != nil || !again.Good() || !again.Certificate().Leaf.Equal(leaf) {
		t.Errorf("after a restart the certificate is not used (%v)", err)
	}
}

// join starts a cluster, and lets a node join it with a bootstrap token.
func join(t *testing.T) (*kubernetes.Clientset, *credentials.Client) {
	t.Helper()
	cluster, kube := start(t)
	token(t, kube, nil)
	identity, err := credentials.NewClient(credentials.ClientOptions{Bootstrap: bearing(cluster, id+"."+secret), Node: "n"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(identity.Close)
	if err := identity.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	return kube, identity
}

func TestACertificateIsRenewedWhileItIsUsed(t *testing.T) {
	kube, identity := join(t)
	first := identity.Certificate().Leaf
	_ = kube.CoreV1().Secrets("kube-system").Delete(t.Context(), "bootstrap-token-"+id, metav1.DeleteOptions{}) // the node must renew its certificate by itself
	if err := identity.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if identity.Certificate().Leaf.Equal(first) {
		t.Fatal("the certificate is the first")
	}
	node, err := kubernetes.NewForConfig(identity.Config())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := node.CoreV1().Services("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}

func TestInformersLoseNothingWhenTheirCertificateIsRenewed(t *testing.T) {
	kube, identity := join(t)
	clients, err := loop.NewClients(identity.Config(), nil)
	if err != nil {
		t.Fatal(err)
	}
	services := loop.Informer(clients, informer.For(clients.Kube.CoreV1().Services("default")))
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	ended := make(chan error, 1)
	go func() {
		ended <- loop.Run(ctx, clients, loop.Func(func(ctx context.Context) error { <-ctx.Done(); return nil }))
	}()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	const rounds, each = 3, 5
	for n := range rounds * each {
		if n%each == 2 { // in the middle of changes
			before := identity.Certificate().Leaf
			if err := identity.Renew(ctx); err != nil {
				t.Fatal(err)
			}
			if identity.Certificate().Leaf.Equal(before) {
				t.Fatal("the certificate is the same")
			}
		}
		name := fmt.Sprint("service-", n)
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
		if _, err := kube.CoreV1().Services("default").Create(ctx, s, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range rounds * each {
		key := informer.Key{Namespace: "default", Name: fmt.Sprint("service-", n)}
		for _, ok := services.Lookup(key); !ok; _, ok = services.Lookup(key) {
			if ctx.Err() != nil {
				t.Fatalf("%s is not seen", key.Name)
			}
			time.Sleep(time.Millisecond)
		}
	}
}

func TestInvalidTokensAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		data  map[string]string
		token string
	}{
		"wrong secret":             {nil, id + ".fedcba9876543210"},
		"another id":               {nil, "abcdeg." + secret},
		"expired":                  {map[string]string{"expiration": "2001-01-01T00:00:00Z"}, id + "." + secret},
		"an end that is no time":   {map[string]string{"expiration": "soon"}, id + "." + secret},
		"not for authentication":   {map[string]string{"usage-bootstrap-authentication": "yes"}, id + "." + secret},
		"a group of somebody else": {map[string]string{"auth-extra-groups": "system:masters"}, id + "." + secret},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, kube := start(t)
			token(t, kube, c.data)
			joiner, err := kubernetes.NewForConfig(bearing(cluster, c.token))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := joiner.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
				t.Errorf("the answer is %v", err)
			}
		})
	}
}

func TestABootstrapTokenGetsNoCertificateForAnotherUser(t *testing.T) {
	cluster, kube := start(t)
	token(t, kube, map[string]string{"auth-extra-groups": ""})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	identity, err := credentials.NewClient(credentials.ClientOptions{Bootstrap: bearing(cluster, id+"."+secret), Node: "n"})
	if err != nil {
		t.Fatal(err)
	}
	defer identity.Close()
	if err := identity.Renew(ctx); !apierrors.IsForbidden(err) {
		t.Errorf("a token without the group of nodes: %v", err)
	}
}

func TestServingCertificatesWaitForApproval(t *testing.T) {
	cluster, kube := start(t)
	node, err := cluster.User("system:node:n", "system:nodes")
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(node)
	if err != nil {
		t.Fatal(err)
	}
	serving := credentials.NewServing(credentials.ServingOptions{Kube: client, Node: "n", Hosts: func() []string { return []string{"n", "192.0.2.1"} }})
	if _, err := serving.Get(); err == nil {
		t.Error("there is a certificate before one was issued")
	}
	issued := make(chan error)
	go func() { issued <- serving.Ensure(t.Context()) }()
	requests := kube.CertificatesV1().CertificateSigningRequests()
	stream, err := informer.For(requests).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	event, err := watch.Until(t.Context(), stream, func(e watch.Event[*certificatesv1.CertificateSigningRequest]) (bool, error) { return true, nil })
	if err != nil {
		t.Fatal(err)
	}
	asked := event.Object
	asked.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: "True", Reason: "Test"}}
	if _, err := requests.UpdateApproval(t.Context(), asked.Name, asked, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := <-issued; err != nil {
		t.Fatal(err)
	}
	c, err := serving.Get()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Leaf.VerifyHostname("192.0.2.1"); err != nil {
		t.Error(err)
	}
}
