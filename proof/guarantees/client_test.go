package guarantees_test

import (
	"context"
	"net"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/proof/internal/network"
)

// object is any object of a typed client.
type object interface {
	metav1.Object
	runtime.Object
}

// resources are the kinds that the random test uses.
var resources = map[string]struct {
	make func() object
	list func() runtime.Object
}{
	"configmaps": {func() object { return &corev1.ConfigMap{} }, func() runtime.Object { return &corev1.ConfigMapList{} }},
	"secrets":    {func() object { return &corev1.Secret{} }, func() runtime.Object { return &corev1.SecretList{} }},
	"pods":       {func() object { return &corev1.Pod{} }, func() runtime.Object { return &corev1.PodList{} }},
}

var resourceNames = []string{"configmaps", "pods", "secrets"}

// wires are the formats in which clients request answers.
var wires = []func(*rest.Config){
	func(*rest.Config) {},
	func(c *rest.Config) {
		c.ContentType, c.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf
	},
	func(c *rest.Config) { c.DisableCompression = true },
}

// client is one client with its own connections.
type client struct {
	rest rest.Interface
}

func newClient(t testing.TB, config *rest.Config, wire int) *client {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.Dial = (&net.Dialer{}).DialContext // so that no other client shares its connections
	config.WrapTransport = network.WithoutRetryAfter
	wires[wire%len(wires)](config)
	k, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &client{rest: k.CoreV1().RESTClient()}
}

func (c *client) create(ctx context.Context, resource string, o object) (object, error) {
	out := resources[resource].make()
	return out, c.rest.Post().MaxRetries(0).Namespace("default").Resource(resource).Body(o).Do(ctx).Into(out)
}

func (c *client) get(ctx context.Context, resource, name string) (object, error) {
	out := resources[resource].make()
	return out, c.rest.Get().MaxRetries(0).Namespace("default").Resource(resource).Name(name).Do(ctx).Into(out)
}

func (c *client) update(ctx context.Context, resource, subresource string, o object) (object, error) {
	out := resources[resource].make()
	return out, c.rest.Put().MaxRetries(0).Namespace("default").Resource(resource).Name(o.GetName()).SubResource(subresource).Body(o).Do(ctx).Into(out)
}

func (c *client) delete(ctx context.Context, resource string, o object) error {
	rev, now := o.GetResourceVersion(), int64(0)
	return c.rest.Delete().MaxRetries(0).Namespace("default").Resource(resource).Name(o.GetName()).
		Body(&metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{ResourceVersion: &rev}}).Do(ctx).Error()
}

// page is one answer to a list.
type page struct {
	rev   store.Revision
	next  string
	items map[string]version
}

func (c *client) list(ctx context.Context, s selector, o metav1.ListOptions) (page, error) {
	o.LabelSelector, o.FieldSelector = s.labels, s.fields
	list := resources[s.resource].list()
	if err := c.rest.Get().MaxRetries(0).Namespace("default").Resource(s.resource).VersionedParams(&o, scheme.ParameterCodec).Do(ctx).Into(list); err != nil {
		return page{}, err
	}
	l, err := meta.ListAccessor(list)
	if err != nil {
		return page{}, err
	}
	p := page{rev: revisionOf(l.GetResourceVersion()), next: l.GetContinue(), items: map[string]version{}}
	return p, meta.EachListItem(list, func(item runtime.Object) error {
		o := item.(object)
		if o.GetAnnotations()[valueAnnotation] != "" { // objects that exist from the start are not part of the test
			p.items[o.GetName()] = version{factOf(o), revisionOf(o.GetResourceVersion())}
		}
		return nil
	})
}

func (c *client) watch(ctx context.Context, s selector, o metav1.ListOptions) (watch.Interface, error) {
	o.LabelSelector, o.FieldSelector, o.Watch = s.labels, s.fields, true
	return c.rest.Get().MaxRetries(0).Namespace("default").Resource(s.resource).VersionedParams(&o, scheme.ParameterCodec).Watch(ctx)
}

func revisionOf(text string) store.Revision {
	rev, err := store.ParseRevision(text)
	if err != nil {
		panic(err)
	}
	return rev
}
